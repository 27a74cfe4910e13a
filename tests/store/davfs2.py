"""davfs2 in a mount namespace of its own: a script runs beside a mounted store, then the mount is gone.

It runs as a child of `unshare`: what it mounts is seen by nobody else, and ends with it.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.debian import NotThereError, unpacked
from tests.store.stores import TOKEN

_MOUNT = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/mount.davfs /run/etc /run/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/work /etc
mkdir -p /etc/davfs2
printf '%s\\n' 'dav_user root' 'dav_group root' 'cache_dir /run/cache' > /etc/davfs2/davfs2.conf
printf '%s\\n' 'delay_upload 0' 'use_proxy 0' 'ask_auth 0' >> /etc/davfs2/davfs2.conf
mkdir /run/cache
printf '%s x "%s"\\n' "$URL" "$TOKEN" > /etc/davfs2/secrets
chmod 600 /etc/davfs2/secrets
"$MOUNT" "$URL" "$FOLDER"
trap '"$UMOUNT" "$FOLDER" >/dev/null' EXIT
"""


def with_mount(url: str, folder: Path, script: str, seconds: float) -> str:
    """Return what a shell script prints that finds the store in $FOLDER; skip where it cannot be mounted."""
    if os.getuid() or not os.path.exists("/dev/fuse") or shutil.which("unshare") is None:
        pytest.skip("mounting needs root, /dev/fuse and unshare")
    try:
        root = unpacked("davfs2", ("davfs2", "libneon27"))
    except NotThereError as error:
        pytest.skip(f"{error}: see CONTRIBUTING.md")
    (libraries,) = root.glob("usr/lib/*/libneon.so.27")
    folder.mkdir()
    environ = {
        **os.environ, "URL": url, "TOKEN": TOKEN, "FOLDER": str(folder),
        "MOUNT": str(root / "usr/sbin/mount.davfs"), "UMOUNT": str(root / "usr/sbin/umount.davfs"),
        "LD_LIBRARY_PATH": str(libraries.parent),
    }  # fmt: skip
    done = subprocess.run(
        ("unshare", "--mount", "--propagation", "private", "sh", "-c", _MOUNT + script),
        env=environ, capture_output=True, text=True, check=False, timeout=seconds,
    )  # fmt: skip
    if done.returncode and "mount" in done.stderr:
        pytest.skip(f"the store cannot be mounted here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return done.stdout
