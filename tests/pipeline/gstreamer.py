"""GStreamer's RTSP server where it is not installed: Debian's packages, unpacked into a cache of the user.

The packages are the newest that this machine's Debian release offers, checked by apt; the folder is named
after their digests. Nothing is installed.
"""

import hashlib
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    "gir1.2-glib-2.0", "gir1.2-gst-plugins-base-1.0", "gir1.2-gst-rtsp-server-1.0", "gir1.2-gstreamer-1.0",
    "gstreamer1.0-plugins-base", "gstreamer1.0-plugins-good", "gstreamer1.0-plugins-ugly", "libdw1",
    "libelf1", "libgirepository-1.0-1", "libglib2.0-0", "libgstreamer-plugins-base1.0-0",
    "libgstreamer1.0-0", "libgstrtspserver-1.0-0", "liborc-0.4-0", "libunwind8", "libx264-164", "python3-gi",
)  # fmt: skip
PLUGINS: Final = (
    "app", "coreelements", "rtp", "rtpmanager", "tcp", "udp", "videoconvertscale", "videotestsrc", "x264",
)  # fmt: skip
"""Others need libraries that the packages do not contain."""
_APT: Final = ("apt-get", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=5", "download")
_MOST_SECONDS: Final = 60


class NotThereError(Exception):
    """The packages cannot be had here; the message is one line."""


@cache
def variables() -> dict[str, str]:
    """Return the environment in which the system's Python finds the server."""
    root = _unpacked(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"))
    (libraries,) = root.glob("usr/lib/*/gstreamer-1.0")
    return {
        "LD_LIBRARY_PATH": str(libraries.parent),
        "GI_TYPELIB_PATH": f"{libraries.parent}/girepository-1.0:{root}/usr/lib/girepository-1.0",
        "GST_PLUGIN_SYSTEM_PATH": str(root / "plugins"),
        "GST_REGISTRY": str(root / "registry"),
        "PYTHONPATH": str(root / "usr/lib/python3/dist-packages"),
    }


def _unpacked(caches: Path) -> Path:
    """Return the folder of the packages; it is made where it is not there."""
    listed = _run(*_APT, "--print-uris", *PACKAGES, folder=Path("/"))  # where no package lies
    digests = "\n".join(sorted(line.split()[-1] for line in listed.splitlines()))
    target = caches / "fairlead" / "gstreamer" / hashlib.sha256(digests.encode()).hexdigest()[:16]
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        _run(*_APT, *PACKAGES, folder=folder)
        for package in sorted(folder.glob("*.deb")):
            _run("dpkg-deb", "-x", str(package), str(folder / "root"))
        (folder / "root" / "plugins").mkdir()
        for plugin in PLUGINS:
            (found,) = (folder / "root").glob(f"usr/lib/*/gstreamer-1.0/libgst{plugin}.so")
            (folder / "root" / "plugins" / found.name).hardlink_to(found)
        try:
            (folder / "root").rename(target)
        except OSError:  # another test has made it meanwhile
            if not target.is_dir():
                raise
    return target


def _run(*command: str, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise NotThereError(f"no packages of GStreamer: {error}") from error
    if done.returncode:
        raise NotThereError(f"no packages of GStreamer: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return done.stdout
