"""Network file systems are known by the mounts of this process."""

import os
from pathlib import Path

import pytest

from fairlead.errors import SettingsError
from fairlead.tiering.program.opening import check_local
from fairlead.tiering.volumes.filesystem import network_file_system

MOUNTS = r"""
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:40 / /data rw,relatime shared:4 - ceph 10.0.0.1:6789:/ rw
31 30 254:1 / /data/local rw,relatime - xfs /dev/vdb rw
32 21 0:41 / /with\040space rw - nfs4 server:/share rw
33 21 0:42 / /fuse rw - fuse.ceph-fuse ceph-fuse rw
34 21 0:43 / /merged rw - fuse.mergerfs a:b rw
35 21 254:3 / /over rw - ext4 /dev/vdc rw
36 35 0:44 / /over rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/", None),
        ("/data", "ceph"),
        ("/data/models", "ceph"),
        ("/database", None),
        ("/data/local", None),
        ("/data/local/models", None),
        ("/with space/x", "nfs4"),
        ("/fuse/x", "fuse.ceph-fuse"),
        ("/merged", None),
        ("/over/x", "cifs"),
    ],
)
def test_the_mount_that_is_nearest_above_a_folder_counts(folder: str, name: str | None) -> None:
    assert network_file_system(folder, MOUNTS) == name


def test_a_folder_of_this_machine_is_local(tmp_path: Path) -> None:
    assert network_file_system(str(tmp_path)) is None


def test_a_tier_on_a_network_file_system_is_refused_by_its_name() -> None:
    with pytest.raises(
        SettingsError, match=r"--slow /data/cold: it is on ceph, which other machines"
    ) as refused:
        check_local("--slow", "/data/cold", MOUNTS)
    assert "ext4" in (refused.value.hint or "")
    check_local("--fast", os.sep, MOUNTS)
