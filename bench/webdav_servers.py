"""The servers of `make bench-webdav`: the store, Apache's mod_dav and rclone, each on an empty folder."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.debian import unpacked

TOKEN: Final = "of-the-benchmark"
_APACHE: Final = """
ServerName localhost
ServerRoot {root}
Listen 127.0.0.1:{port}
PidFile {run}/pid
ErrorLog {run}/log
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule dav_module {modules}/mod_dav.so
LoadModule dav_fs_module {modules}/mod_dav_fs.so
User nobody
Group nogroup
DavLockDB {run}/locks
EnableSendfile On
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 60
DocumentRoot {folder}
<Directory {folder}>
  Dav On
  Require all granted
</Directory>
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs."""

    port: int
    folder: Path
    pid: int
    syncs: bool
    """Whether its answer to PUT means that the file is on the disk."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to serve a folder."""

    name: str
    kind: str
    syncs: bool = False


CONTENDERS: Final = (
    Contender("fairlead", "store", syncs=True),
    Contender("fairlead --no-sync", "store"),
    Contender("rclone", "rclone"),
    Contender("Apache mod_dav", "apache"),
)


@contextmanager
def serving(contender: Contender, scratch: Path) -> Iterator[Server]:
    """Yield a running server of an empty folder.

    The folder stays until the end of the benchmark: ext4 passes over inodes that were freed a moment ago, one
    by one, so that the removal of many files would slow the next server down.
    """
    folder, port = Path(tempfile.mkdtemp(dir=scratch)), _free_port()
    run = folder.with_suffix(".run")
    folder.chmod(0o755)
    run.mkdir()
    command, environ = _COMMANDS[contender.kind](contender, folder, run, port)
    child = subprocess.Popen(
        command, env={**os.environ, **environ}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _await(port, child)
        yield Server(port, folder, child.pid, contender.syncs)
    finally:
        child.terminate()
        child.wait()


def version(kind: str) -> str:
    """Return the version of a server."""
    if kind == "store":
        return subprocess.check_output((sys.executable, "-m", "fairlead", "--version"), text=True).split()[-1]
    if kind == "rclone":
        return subprocess.check_output((_rclone(), "version"), text=True).split()[1]
    root, environ = _apache_root()
    out = subprocess.check_output((root / "usr/sbin/apache2", "-v"), env={**os.environ, **environ}, text=True)
    return out.split("Apache/")[1].split()[0]


def _store(contender: Contender, folder: Path, run: Path, port: int) -> tuple[list[str], dict[str, str]]:
    (run / "token").write_text(TOKEN)
    words = ["serve", "store", "--root", str(folder), "--token-file", str(run / "token")]
    more = [] if contender.syncs else ["--no-sync"]
    return [sys.executable, "-m", "fairlead", *words, "--listen", f"127.0.0.1:{port}", *more], {}


def _apache(_: Contender, folder: Path, run: Path, port: int) -> tuple[list[str], dict[str, str]]:
    root, environ = _apache_root()
    modules = root / "usr/lib/apache2/modules"
    text = _APACHE.format(root=run, run=run, port=port, modules=modules, folder=folder)
    (run / "conf").write_text(text)
    # It loads the driver of its lock database when it runs as nobody, who cannot read the cache of a user.
    libraries = Path(environ["LD_LIBRARY_PATH"])
    shutil.copytree(libraries / "apr-util-1", run / "drivers")
    environ = {"LD_LIBRARY_PATH": f"{libraries}:{run}/drivers"}
    for each in (folder, run):
        shutil.chown(each, "nobody", "nogroup")
    return [str(root / "usr/sbin/apache2"), "-f", str(run / "conf"), "-DFOREGROUND"], environ


def _rclone_command(_: Contender, folder: Path, run: Path, port: int) -> tuple[list[str], dict[str, str]]:
    words = ["serve", "webdav", str(folder), "--addr", f"127.0.0.1:{port}", "--config", str(run / "none")]
    return [_rclone(), *words], {}


def _rclone() -> str:
    return shutil.which("rclone") or str(unpacked("rclone", ("rclone",)) / "usr/bin/rclone")


def _apache_root() -> tuple[Path, dict[str, str]]:
    packages = ("apache2-bin", "libapr1", "libaprutil1", "libjansson4", "liblua5.3-0")
    root = unpacked("apache", packages)
    (libraries,) = root.glob("usr/lib/*/libapr-1.so.0")
    return root, {"LD_LIBRARY_PATH": str(libraries.parent)}


_COMMANDS: Final = {"store": _store, "apache": _apache, "rclone": _rclone_command}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def _await(port: int, child: "subprocess.Popen[bytes]") -> None:
    """Wait until a server listens."""
    end = time.monotonic() + 20
    while time.monotonic() < end and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    sys.exit(f"the server on port {port} did not start")
