"""A volume is copied to another one: whole, compared, and nothing else than the source."""

import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.errors import StoreCopyError
from fairlead.store.copying.passes import CopyJob
from fairlead.store.copying.program import main
from fairlead.store.digests import store_digest, stored_digest
from fairlead.units import Bytes

Tree = dict[str, tuple[int, int, bytes]]


@pytest.fixture
def job(tmp_path: Path) -> CopyJob:
    """Return a copy of an empty folder to an empty folder."""
    (tmp_path / "source" / "files").mkdir(parents=True)
    (tmp_path / "target").mkdir()
    return CopyJob(str(tmp_path / "source"), str(tmp_path / "target"))


def tree(root: str) -> Tree:
    """Return kind with mode, time and content of all that is below a folder."""
    found: Tree = {}
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            is_link, is_folder = stat.S_ISLNK(status.st_mode), stat.S_ISDIR(status.st_mode)
            content = os.readlink(path).encode() if is_link else b"" if is_folder else Path(path).read_bytes()
            time = 0 if is_link else status.st_mtime_ns
            found[os.path.relpath(path, root)] = (status.st_mode, time, content)
    return found


class Writer:
    """Changes a folder at random, by a seed."""

    def __init__(self, root: str, seed: int) -> None:
        self.root, self.random = Path(root), random.Random(seed)

    def step(self) -> None:
        """Make, change, rename, link, remove something, or change a mode."""
        path = self.root / "files" / f"{self.random.randrange(4)}" / f"{self.random.randrange(6)}"
        path.parent.mkdir(exist_ok=True)
        kind = self.random.randrange(9)
        exists = os.path.lexists(path)
        if kind <= 3 and not path.is_dir():
            path.unlink(missing_ok=True)
            path.write_bytes(self.random.randbytes(self.random.randrange(5000)))
        elif kind == 4 and exists and path.is_file() and not path.is_symlink():
            status = path.stat()
            path.write_bytes(self.random.randbytes(status.st_size))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # a change that size and time hide
        elif kind == 5 and exists and not path.is_dir():
            path.unlink()
        elif kind == 6 and not exists:
            path.symlink_to(f"../{self.random.randrange(4)}")
        elif kind == 7 and exists and path.is_file() and not path.is_symlink():
            path.chmod(self.random.choice((0o600, 0o640, 0o755)))
            twin = path.with_name("twin")
            twin.unlink(missing_ok=True)
            os.link(path, twin)
        elif kind == 8 and not exists:
            path.mkdir()


@pytest.mark.parametrize("seed", range(12))
def test_after_any_changes_and_interruptions_both_are_the_same(job: CopyJob, seed: int) -> None:
    writer = Writer(job.source, seed)
    for _ in range(writer.random.randrange(4)):
        for _ in range(40):
            writer.step()
        job.first_pass()
        damage = [
            Path(job.target, path) for path, (mode, _, _) in tree(job.target).items() if stat.S_ISREG(mode)
        ]
        for path in writer.random.sample(damage, min(2, len(damage))):
            path.write_bytes(b"half")  # as a copy leaves it that ended in between
    for _ in range(40):
        writer.step()
    before = tree(job.source)
    result = job.last_pass()
    assert tree(job.source) == before, "the source is only read"
    assert tree(job.target) == before
    assert result.is_verified
    again = job.last_pass()
    assert (again.copied, again.removed) == (0, 0)


def test_a_digest_stays_with_its_file_and_names_of_one_file_stay_one(job: CopyJob) -> None:
    path = Path(job.source, "files", "one")
    path.write_bytes(b"x" * 3_000_000)
    with path.open("rb+") as file:
        store_digest(file.fileno(), bytes(range(32)))
    os.link(path, path.with_name("two"))
    assert job.last_pass().files == 2
    copy = Path(job.target, "files", "one")
    assert stored_digest(str(copy), copy.stat()) == stored_digest(str(path), path.stat())
    assert copy.samefile(copy.with_name("two"))
    path.with_name("two").unlink()
    path.with_name("two").write_bytes(path.read_bytes())
    os.utime(path.with_name("two"), ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    job.last_pass()
    assert not copy.samefile(copy.with_name("two")), "they are two files now"


def test_a_hole_stays_a_hole_and_what_holds_no_bytes_is_left_out(job: CopyJob) -> None:
    with Path(job.source, "files", "sparse").open("wb") as file:
        file.truncate(64 << 20)
        file.write(b"begin")
    os.mkfifo(Path(job.source, "files", "pipe"))
    Path(job.source, "lost+found").mkdir()
    result = job.last_pass()
    copy = Path(job.target, "files", "sparse")
    assert (copy.stat().st_size, result.left_out) == (64 << 20, 1)
    assert copy.stat().st_blocks * 512 < 8 << 20
    assert sorted(os.listdir(job.target)) == ["files"]


def test_a_folder_that_nobody_may_change_is_copied_and_removed(job: CopyJob) -> None:
    locked = Path(job.source, "files", "locked")
    locked.mkdir()
    (locked / "file").write_bytes(b"1")
    locked.chmod(0o555)
    job.last_pass()
    assert stat.S_IMODE(Path(job.target, "files", "locked").stat().st_mode) == 0o555
    locked.chmod(0o755)
    (locked / "file").unlink()
    locked.rmdir()
    job.last_pass()
    assert tree(job.target) == tree(job.source)


def test_a_target_that_is_too_small_is_refused_before_anything_is_copied(job: CopyJob) -> None:
    Path(job.source, "files", "large").write_bytes(b"x" * (2 << 20))
    small = CopyJob(job.source, job.target, Bytes(1 << 20))
    with pytest.raises(StoreCopyError, match="2Mi do not fit into 1Mi"):
        small.first_pass()
    assert os.listdir(job.target) == []


def test_a_full_target_and_a_missing_one_are_errors_that_say_what_to_do(
    job: CopyJob, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(job.source, "files", "large").write_bytes(b"x" * (1 << 20))
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    limited += "from fairlead.store.copying.program import main; sys.exit(main(sys.argv[1:], ''))"
    command = [sys.executable, "-c", limited, job.source, job.target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"{job.target} is full: File too large; ask for a larger size, or remove files\n",
    )
    assert "files/large" not in tree(job.target), "a file that is not whole has no name"
    assert main([job.source, "/nonexistent/target"], log="") == 1
    assert capsys.readouterr().err.startswith("/nonexistent/target")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_named(job: CopyJob) -> None:
    path = Path(job.source, "files", "secret")
    path.write_bytes(b"1")
    path.chmod(0)
    with pytest.raises(StoreCopyError, match="secret cannot be read"):
        job.first_pass()


def test_a_source_that_goes_on_changing_is_refused(job: CopyJob) -> None:
    path = Path(job.source, "files", "counter")

    class Restless(CopyJob):
        """A copy beside a program that does not stop."""

        def _list(self) -> "object":  # type: ignore[override]
            path.write_text(str(int(path.read_text()) + 1) if path.exists() else "10")
            return CopyJob._list(self)

    with pytest.raises(StoreCopyError, match="changes although writes are frozen"):
        Restless(job.source, job.target).last_pass()


def test_the_program_says_what_it_has_done(
    job: CopyJob, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    Path(job.source, "files", "one").write_bytes(b"12345")
    log = tmp_path / "log"
    log.touch()
    assert main([job.source, job.target, "--last", "--capacity", "100"], log=str(log)) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"files": 1, "size": 5, "copied": 1, "removed": 0, "left_out": 0, "is_verified": True}
    assert json.loads(log.read_text()) == said
    assert main([str(tmp_path / "missing"), job.target], log=str(log)) == 1
    assert log.read_text().endswith("there is no such folder; mount the volume there")
    assert capsys.readouterr().err == f"{log.read_text()}\n"
