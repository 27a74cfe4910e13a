"""Nodes of /dev/nvidia-caps: only those of one MIG instance that the driver lists."""

from pathlib import Path

import pytest

from fairlead.warden.devices import Devices
from fairlead.warden.spec import violation
from tests.warden.specs import ACCELERATORS, Spec, good

LISTED = {"gpu0/mig/gi1": 12, "gpu0/mig/gi1/ci0": 13, "gpu0/mig/gi1/ci1": 14, "gpu0/mig/gi2": 21}
LISTED |= {"gpu0/mig/gi2/ci0": 22, "gpu1/mig/gi1": 147, "gpu1/mig/gi1/ci0": 148}


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    """Return the devices of a machine with two GPUs that are split."""
    place = tmp_path / "proc/driver/nvidia/capabilities"
    for name, number in {"mig/config": 1, "mig/monitor": 2, "fabric-imex-mgmt": 4323}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"DeviceFileMinor: {number}\nDeviceFileMode: 256\nDeviceFileModify: 1\n")
    for name, number in LISTED.items():
        (place / name).mkdir(parents=True, exist_ok=True)
        text = f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
        (place / name / "access").write_text(text)
    return Devices(str(tmp_path))


def with_capabilities(*numbers: int) -> Spec:
    """Return a spec whose first device has these capabilities."""
    spec = good()
    nodes = [{"path": f"/dev/nvidia-caps/nvidia-cap{number}"} for number in numbers]
    spec["devices"][0]["containerEdits"]["deviceNodes"] = nodes
    return spec


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((12, 13), None),
        ((12, 14), None),
        ((147, 148), None),
        ((1,), "it configures the partitions of every GPU"),
        ((2,), "it watches the partitions of every GPU"),
        ((4323,), "no MIG instance of this machine"),  # the fabric between machines
        ((12, 15), "no MIG instance of this machine"),  # not made yet: another container may get it
        ((12, 13, 14), "several MIG instances"),
        ((12, 13, 21, 22), "several MIG instances"),
        ((12, 148), "several MIG instances"),
    ],
)
def test_the_nodes_of_one_instance_are_allowed_and_no_others(
    devices: Devices, numbers: tuple[int, ...], says: str | None
) -> None:
    spec = with_capabilities(*numbers)
    why = violation(ACCELERATORS, spec, devices.root, devices.fault, devices.together_fault)
    assert why is None if says is None else says in (why or "")


def test_two_devices_may_have_an_instance_each(devices: Devices) -> None:
    spec = with_capabilities(12, 13)
    spec["devices"][1]["containerEdits"]["deviceNodes"] = [
        {"path": f"/dev/nvidia-caps/nvidia-cap{number}"} for number in (21, 22)
    ]
    assert violation(ACCELERATORS, spec, devices.root, devices.fault, devices.together_fault) is None


def test_without_a_driver_no_capability_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "proc/driver").mkdir(parents=True)
    assert "no MIG instance" in (Devices(str(tmp_path)).fault("/dev/nvidia-caps/nvidia-cap12") or "")
