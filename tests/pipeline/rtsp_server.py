"""An RTSP server of GStreamer, with a password: `python3 rtsp_server.py PORT`, by the system's own Python.

It prints its port and serves /test until it is killed; it exits with 3 and a reason where a part is missing.
"""

import sys
from typing import Any

ELEMENTS = ("videotestsrc", "x264enc", "rtph264pay")
PIPELINE = (
    "( videotestsrc is-live=true pattern=ball ! video/x-raw,width=160,height=120,framerate=30/1 "
    "! x264enc tune=zerolatency key-int-max=10 ! rtph264pay name=pay0 pt=96 )"
)


def main() -> None:
    """Serve until the process is killed."""
    try:
        import gi  # noqa: PLC0415 - only the system's Python has it

        gi.require_version("Gst", "1.0")
        gi.require_version("GstRtspServer", "1.0")
        from gi.repository import GLib, Gst, GstRtspServer  # noqa: PLC0415
    except (ImportError, ValueError) as error:
        print(f"no GStreamer RTSP server: {error}")
        sys.exit(3)
    Gst.init(None)
    missing = [name for name in ELEMENTS if Gst.ElementFactory.find(name) is None]
    if missing:
        print(f"GStreamer lacks {', '.join(missing)}")
        sys.exit(3)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(sys.argv[1])
    auth, token = GstRtspServer.RTSPAuth(), GstRtspServer.RTSPToken()
    token.set_string("media.factory.role", "viewer")
    auth.add_basic(GstRtspServer.RTSPAuth.make_basic("viewer", "secret"), token)
    server.set_auth(auth)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(PIPELINE)
    factory.set_shared(True)
    factory.add_role_from_structure(permissions(Gst))
    server.get_mount_points().add_factory("/test", factory)
    server.attach(None)
    print(server.get_bound_port(), flush=True)
    GLib.MainLoop().run()


def permissions(gst: Any) -> Any:
    """Return what a viewer may do."""
    role = gst.Structure.new_empty("viewer")
    for right in ("media.factory.access", "media.factory.construct"):
        role.set_value(right, True)
    return role


if __name__ == "__main__":
    main()
