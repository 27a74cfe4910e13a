"""Images and their mounts: `mkfs.xfs`, `mount -o loop`, `xfs_growfs`, `umount`.

A mount with `-o loop` frees its loop device when it goes, also when it goes with a node's mount namespace:
a lab that is killed leaves no device behind. XFS, because it grows while it is mounted for every root;
ext4 asks for CAP_SYS_RESOURCE, which root in a container often lacks.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.csi.objects import FILE_SYSTEM
from fairlead.units import Bytes

PACKAGES: Final = ("xfsprogs",)
_SMALL: Final = {"TEST_DIR": "1", "TEST_DEV": "1", "QA_CHECK_FS": "1"}
"""mkfs.xfs makes file systems of less than 300 MiB for tests alone; a lab is one."""
_HANDLE: Final = re.compile(r"pvc-[0-9a-z-]+")
_CONTROL: Final = Path("/dev/loop-control")
_KINDS: Final = Path("/proc/filesystems")
_BLOCK: Final = Path("/sys/block")


def obstacle(control: Path = _CONTROL, kinds: Path = _KINDS) -> str:
    """Return why this machine cannot have such volumes; empty if it can."""
    if not control.exists():
        return f"volumes need loop devices: there is no {control} (modprobe loop)"
    if FILE_SYSTEM not in kinds.read_text(encoding="ascii").split():
        return "volumes need XFS in the kernel (modprobe xfs)"
    return ""


class Images:
    """The images of a lab's volumes; `env` has the tools of XFS on its PATH."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self._root = root
        self._env = dict(env)

    def path(self, handle: str) -> Path:
        """Return the path of a volume's image."""
        if not _HANDLE.fullmatch(handle):
            raise LabError(f"{handle!r} is not a volume of the lab")
        return self._root / f"{handle}.{FILE_SYSTEM}"

    def create(self, handle: str, size: Bytes) -> None:
        """Make a volume, unless it is there."""
        image = self.path(handle)
        if image.exists():
            return
        staging = image.with_suffix(".new")
        try:
            with staging.open("wb") as file:
                file.truncate(size)
            self._run("mkfs.xfs", "-q", "-f", str(staging))
            staging.rename(image)
        finally:
            staging.unlink(missing_ok=True)

    def enlarge(self, handle: str, size: Bytes) -> None:
        """Enlarge a volume's image; its file system grows where it is mounted."""
        with self.path(handle).open("r+b") as file:
            if os.fstat(file.fileno()).st_size < size:
                file.truncate(size)

    def remove(self, handle: str) -> bool:
        """Remove a volume; False: it is mounted."""
        if self.device(handle):
            return False
        self.path(handle).unlink(missing_ok=True)
        return True

    def device(self, handle: str, block: Path = _BLOCK) -> str:
        """Return the loop device of a volume; empty: it is mounted nowhere."""
        image = str(self.path(handle))
        for file in block.glob("loop*/loop/backing_file"):
            with suppress(OSError):  # it is freed just now
                if file.read_text(encoding="utf-8").rstrip("\n") == image:
                    return f"/dev/{file.parent.parent.name}"
        return ""

    def mount(self, handle: str, target: Path) -> None:
        """Mount a volume, unless it is; nodes that mount the same one share its device."""
        if not self.path(handle).exists():
            raise LabError(f"volume {handle} has no image", hint="the claim must be bound")
        target.mkdir(parents=True, exist_ok=True)
        if not os.path.ismount(target):
            self._run("mount", "-t", FILE_SYSTEM, "-o", "loop", str(self.path(handle)), str(target))

    def bind(self, source: Path, target: Path, *, readonly: bool) -> None:
        """Show a mounted volume at another path, unless it is there."""
        if not os.path.ismount(source):
            raise LabError(f"{source}: the volume is not staged")
        target.mkdir(parents=True, exist_ok=True)
        if not os.path.ismount(target):
            self._run("mount", "--bind", str(source), str(target))
        if readonly:
            self._run("mount", "-o", "remount,bind,ro", str(target))

    def unmount(self, target: Path) -> None:
        """Unmount a volume from a path, if it is there, and remove the empty folder."""
        if os.path.ismount(target):
            self._run("umount", str(target))
        with suppress(FileNotFoundError):
            target.rmdir()

    def grow(self, handle: str, mounted: Path) -> Bytes:
        """Let a mounted file system fill its image; return the image's size."""
        device = self.device(handle)
        if not device:
            raise LabError(f"volume {handle} is not mounted", hint="it grows where a pod uses it")
        self._run("losetup", "--set-capacity", device)
        self._run("xfs_growfs", str(mounted))
        return Bytes(self.path(handle).stat().st_size)

    def _run(self, *argv: str) -> None:
        done = subprocess.run(  # noqa: S603  # no shell; every argument is ours
            argv, env=self._env | _SMALL, capture_output=True, check=False, text=True, errors="replace"
        )
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            raise LabError(f"{argv[0]} failed: {lines[0]}", hint="see: fairlead lab logs volumes")
