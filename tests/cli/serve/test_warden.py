"""`fairlead warden` as on a node: uid 0 without capabilities, and an agent that may be compromised."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fairlead.warden.client import CdiWriter, digest
from tests.warden.kubelet import PATIENCE, Kubelet
from tests.warden.specs import ACCELERATORS, HOSTILE, bent, claim, good

PROGRAM = (sys.executable, "-c", "from fairlead.cli.main import run; run()", "warden")
AGENT = 10001
BARE = ("setpriv", "--reuid=0", "--regid=0", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
"""Root as in a container that drops all capabilities."""
IN_GROUP = (*BARE, f"--groups={AGENT}")
AS_AGENT = ("setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", "--clear-groups", "--no-new-privs")

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv"
)


@pytest.fixture
def node() -> Iterator[Path]:
    """Return a folder that every user can enter, unlike those of pytest: a node's file system."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        for folder in ("shared", "cdi", "machine", "plugins", "registry", "board"):
            (place / folder).mkdir()
        (place / "shared").chmod(0o777)  # as the kubelet makes an emptyDir
        yield place


def run(*argv: str, prefix: Sequence[str] = ()) -> tuple[int, str]:
    done = subprocess.run([*prefix, *PROGRAM, *argv], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def options(node: Path, group: int) -> list[str]:
    return [
        *("--folder", f"{node}/shared", "--group", str(group)),
        *("--pod-resources", f"{node}/kubelet.sock"),
        *("--cdi-dir", f"{node}/cdi", "--device-root", f"{node}/machine"),
    ]


@contextmanager
def warden(node: Path, *, prefix: Sequence[str] = (), group: int = 0) -> Iterator["subprocess.Popen[str]"]:
    """Run a warden until the block ends."""
    command = [*prefix, *PROGRAM, "serve", *options(node, group or os.getegid() or AGENT)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            lines = [process.stderr.readline() for _ in range(2)]
            assert all("listening on" in line for line in lines), lines
            yield process
        finally:
            process.kill()


def as_agent(code: str, *argv: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of Python as the agent's user."""
    probe = subprocess.run([*AS_AGENT, sys.executable, "-c", "import fairlead"], check=False)
    if probe.returncode:
        pytest.skip("the agent's user cannot run this Python")
    command = [*AS_AGENT, sys.executable, "-c", code, *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def kilobytes(pid: int, key: str) -> int:
    found = re.search(rf"^{key}:\s+([0-9]+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


@needs_root
def test_folders_are_opened_without_any_capability(node: Path) -> None:
    (node / "release").write_text("R36")
    for _ in range(2):
        code, err = run(
            *("open", "--group", str(AGENT), "--folder", f"{node}/plugins", "--folder", f"{node}/registry"),
            *("--copy", f"{node}/release:{node}/board/etc/", "--copy", f"{node}/absent:{node}/board/"),
            prefix=IN_GROUP,
        )
        assert (code, err) == (0, "")
    for name in ("plugins", "registry"):
        found = (node / name).stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, AGENT, 0o770)
    assert (node / "board/etc/release").read_text() == "R36"
    bind = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])"
    assert as_agent(bind, f"{node}/plugins/dra.sock").returncode == 0
    assert as_agent(bind, f"{node}/dra.sock").returncode == 1
    run("open", "--group", str(AGENT), "--folder", f"{node}/plugins", prefix=IN_GROUP)
    assert os.listdir(node / "plugins") == []


@needs_root
def test_without_the_group_the_error_names_the_setting(node: Path) -> None:
    prefix = (*BARE, "--clear-groups")
    hint = f"  give the pod supplementalGroups: [{AGENT}]\n"
    code, err = run("open", "--group", str(AGENT), "--folder", f"{node}/plugins", prefix=prefix)
    assert (code, err) == (2, f"fairlead: {node}/plugins: chgrp to {AGENT} not permitted\n{hint}")
    code, err = run("serve", *options(node, AGENT), prefix=prefix)
    assert (code, err) == (2, f"fairlead warden: {node}/shared: chgrp to {AGENT} not permitted\n{hint}")


@needs_root
def test_the_agent_gets_two_sockets_and_nothing_more(node: Path) -> None:
    with Kubelet(node / "kubelet.sock"), warden(node, prefix=IN_GROUP, group=AGENT) as process:
        caps = re.findall(r"^Cap\w+:\s+(\w+)", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
        assert set(caps) == {"0" * 16}
        (node / "kubelet.sock").chmod(0o755)
        put = (
            "import json, sys; from pathlib import Path; from fairlead.warden.client import CdiWriter\n"
            "writer = CdiWriter(Path(sys.argv[1]))\n"
            "print(writer.put(sys.argv[2], json.loads(sys.argv[3])), *writer.names())"
        )
        done = as_agent(put, f"{node}/shared/cdi.sock", ACCELERATORS, json.dumps(good()))
        assert (done.returncode, done.stdout) == (0, f"{digest(good())} {ACCELERATORS}\n"), done.stderr
        found = (node / "cdi" / ACCELERATORS).stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o644)
        talk = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.send(b'list')\n"
            "print(s.recv(9))"
        )
        assert as_agent(talk, f"{node}/shared/pod-resources.sock").stdout == "b'LIST'\n"
        assert "PermissionError" in as_agent(talk, f"{node}/kubelet.sock").stderr
        for attack in (
            f"import os; os.unlink('{node}/shared/cdi.sock')",
            f"import os; os.rename('{node}/shared/cdi.sock', '{node}/shared/x')",
            f"import os; os.symlink('/etc/shadow', '{node}/shared/x')",
            f"open('{node}/shared/x', 'w')",
            f"open('{node}/cdi/x.json', 'w')",
            f"open('{node}/cdi/{ACCELERATORS}', 'a')",
        ):
            assert "PermissionError" in as_agent(attack).stderr, attack


def test_an_attack_leaves_nothing_behind_and_takes_no_memory(node: Path) -> None:
    (node / "cdi/nvidia.com-gpu.json").write_text("{}")
    with warden(node) as process:
        path = node / "shared/cdi.sock"
        writer = CdiWriter(path)
        writer.put(*claim())
        before = sorted(os.listdir(node / "cdi"))
        content = [(node / "cdi" / name).read_bytes() for name in before]
        heavy = [b"[" + b"[]," * 80_000, b'{"a":' * 50_000, b"\xff" * 500_000, b'[{"a":0},' * 29_000]
        garbage = [*heavy, b"{}\n", b"\n", b"\0\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
        specs = [{"put": ACCELERATORS, "spec": bent(place, value)} for place, value, _ in HOSTILE]
        for attack in (*garbage, *(json.dumps(spec).encode() + b"\n" for spec in specs)):
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(path))
                line.settimeout(PATIENCE)
                with suppress(BrokenPipeError, ConnectionResetError):
                    line.sendall(attack)
                    line.shutdown(socket.SHUT_WR)
                    while line.recv(1 << 16):
                        pass
        assert sorted(os.listdir(node / "cdi")) == before
        assert [(node / "cdi" / name).read_bytes() for name in before] == content
        assert process.poll() is None
        assert writer.names()
        assert kilobytes(process.pid, "VmHWM") < 32 * 1024
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
        assert log.count(f"refused put '{ACCELERATORS}': ") == len(HOSTILE)
        assert all(line.startswith("fairlead warden: ") and line.isprintable() for line in log.splitlines())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_warden_stops_cleanly_and_its_files_stay(node: Path, number: signal.Signals) -> None:
    with warden(node) as process:
        CdiWriter(node / "shared/cdi.sock").put(ACCELERATORS, good())
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(f"{node}/shared/cdi.sock")  # a client in the middle of a request
            process.send_signal(number)
            assert process.wait(PATIENCE) == 0
        assert process.stderr
        assert process.stderr.read().endswith("fairlead warden: stopped\n")
    assert os.listdir(node / "shared") == []
    assert os.listdir(node / "cdi") == [ACCELERATORS]


def test_the_warden_restarts_after_a_kill(node: Path) -> None:
    with warden(node) as process:
        process.kill()
        process.wait(PATIENCE)
    assert sorted(os.listdir(node / "shared")) == ["cdi.sock", "pod-resources.sock"]
    (node / "cdi/.fairlead-0123456789abcdef.tmp").write_text("half")
    with warden(node):
        assert CdiWriter(node / "shared/cdi.sock").names() == {}
        assert os.listdir(node / "cdi") == []


def test_the_warden_runs_without_the_command_line_and_its_environment(node: Path) -> None:
    with warden(node) as process:
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        assert command[1] == b"-I"
        assert b"serve" not in command, "the process was replaced"


def test_the_warden_loads_few_modules_of_fairlead_and_none_that_is_heavy() -> None:
    code = (
        "import sys; sys.argv = ['x', '{}']\n"
        "import fairlead.warden.__main__, fairlead.warden.server, fairlead.warden.prepare\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("fairlead") and ".warden" not in name}
    assert ours == {"fairlead", "fairlead.errors", "fairlead.signals"}
    heavy = {"asyncio", "ssl", "_ssl", "threading", "subprocess", "dataclasses", "inspect", "argparse"}
    assert not loaded & {*heavy, "http", "urllib", "tempfile", "shutil", "pathlib", "logging", "ctypes"}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["serve", "--group", "5", "--folder", "{node}/shared"], "nothing to serve"),
        (["serve", "--group", "0", "--folder", "{node}/shared", "--cdi-dir"], "--group 0: not a group for"),
        (["open", "--group", "-1"], "--group -1"),
        (["open", "--group", "4294967295", "--folder", "{node}/plugins"], "not a group for an agent"),
        (["open", "--group", "5", "--folder", "{node}/nowhere"], "{node}/nowhere: no such file or directory"),
        (["open", "--group", "5", "--folder", "relative"], "relative: must be absolute"),
        (["open", "--group", "5", "--copy", "/a"], "--copy /a: must be FROM:TO"),
    ],
)
def test_an_invalid_command_ends_with_2(node: Path, argv: list[str], message: str) -> None:
    code, err = run(*(word.format(node=node) for word in argv))
    assert code == 2
    assert message.format(node=node) in err
    assert "Traceback" not in err


def test_a_missing_cdi_folder_is_reported(node: Path) -> None:
    (node / "cdi").rmdir()
    code, err = run("serve", *options(node, os.getegid() or AGENT))
    assert (code, "mount the runtime's CDI folder there" in err) == (2, True)
