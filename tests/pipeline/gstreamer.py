"""GStreamer's RTSP server where it is not installed: Debian's packages, unpacked into a cache of the user."""

from functools import cache
from pathlib import Path
from typing import Final

from tests.debian import NotThereError, unpacked

__all__ = ["NotThereError", "variables"]

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


@cache
def variables() -> dict[str, str]:
    """Return the environment in which the system's Python finds the server."""
    root = unpacked("gstreamer", PACKAGES, _choose_plugins)
    (libraries,) = root.glob("usr/lib/*/gstreamer-1.0")
    return {
        "LD_LIBRARY_PATH": str(libraries.parent),
        "GI_TYPELIB_PATH": f"{libraries.parent}/girepository-1.0:{root}/usr/lib/girepository-1.0",
        "GST_PLUGIN_SYSTEM_PATH": str(root / "plugins"),
        "GST_REGISTRY": str(root / "registry"),
        "PYTHONPATH": str(root / "usr/lib/python3/dist-packages"),
    }


def _choose_plugins(root: Path) -> None:
    """Link the plugins that are used into a folder of their own."""
    (root / "plugins").mkdir()
    for plugin in PLUGINS:
        (found,) = root.glob(f"usr/lib/*/gstreamer-1.0/libgst{plugin}.so")
        (root / "plugins" / found.name).hardlink_to(found)
