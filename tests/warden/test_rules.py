"""What is allowed: every accelerator of the catalog, what a container receives, and no more."""

import re

import pytest

from fairlead.catalog import Catalog
from fairlead.publish import access
from fairlead.publish.memory_limit import MPS_CLIENT, VARIABLES, MemoryLimit, limit_variables
from fairlead.units import Bytes
from fairlead.warden.rules import env_fault, kind_of, node_fault, usb_minor
from tests.accelerators import accelerator
from tests.warden.specs import ACCELERATORS, CLAIM, FILES

DOCUMENTED = [
    "/dev/apex_0",
    "/dev/hailo0",
    "/dev/dri/renderD128",
    "/dev/dri/card1",
    "/dev/accel/accel0",
    "/dev/accel/accel_controlD0",
    "/dev/nvidia0",
    "/dev/nvidia15",
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
    "/dev/nvidia-caps/nvidia-cap3",
    "/dev/nvhost-ctrl-gpu",
    "/dev/nvmap",
    "/dev/nvgpu/igpu0/ctrl",
    "/dev/nvdla0",
    "/dev/bus/usb/001/002",
    "/dev/kfd",
    "/dev/mali0",
    "/dev/fastrpc-cdsp",
    "/dev/fastrpc-cdsp-secure",
    "/dev/metis-0:1:0",
    "/dev/memx0_feature",
]


def samples(glob: str) -> list[str]:
    """Return paths that match a glob of the catalog."""
    return [re.sub(r"\[0-9\]\*|\*", number, glob) for number in ("0", "12")]


def test_every_accelerator_of_the_catalog_is_allowed(catalog: Catalog) -> None:
    globs = {glob for row in catalog.devices.values() for driver in row.drivers for glob in driver.nodes}
    assert len(globs) > 50
    assert not [path for glob in sorted(globs) for path in samples(glob) if node_fault(path)]


def test_everything_that_a_container_receives_is_allowed() -> None:
    globs = [glob for row in access.NODES.values() for glob in row if glob.startswith("/dev/")]
    assert not [path for glob in globs for path in samples(glob) if node_fault(path)]
    names = [pattern.replace("[A-Z0-9_]+", "DEVICE") for pattern in access.ENVIRONMENT]
    limits = limit_variables(
        MemoryLimit(Bytes(1 << 30), frozenset({MPS_CLIENT})),
        [accelerator(kind="gpu", vendor="AMD", mebibytes=4096)],
    )
    assert set(VARIABLES) <= set(limits)
    assert not [name for name in names if env_fault(f"{name}={limits.get(name, '0')}")]
    assert env_fault("PYTORCH_ALLOC_CONF=backend:cudaMallocAsync")


@pytest.mark.parametrize("path", DOCUMENTED)
def test_documented_nodes_are_allowed(path: str) -> None:
    assert node_fault(path) is None


@pytest.mark.parametrize("path", DOCUMENTED)
@pytest.mark.parametrize("trick", ["{}/", "/{}", "{}\n", " {}", "{}/x", "/host{}", "{}/../sda", "{}\0"])
def test_no_trick_with_a_path_is_allowed(path: str, trick: str) -> None:
    assert node_fault(trick.format(path))


def test_a_file_name_implies_its_kind() -> None:
    assert kind_of(ACCELERATORS) == "fairlead.dev/accelerator"
    assert kind_of(CLAIM) == "fairlead.dev/claim"


@pytest.mark.parametrize("name", FILES)
def test_other_file_names_have_no_kind(name: str) -> None:
    assert kind_of(name) is None


@pytest.mark.parametrize(("bus", "number", "minor"), [(1, 2, 1), (2, 7, 134), (1, 127, 126), (2, 1, 128)])
def test_a_usb_path_implies_its_minor(bus: int, number: int, minor: int) -> None:
    assert usb_minor(bus, number) == minor


@pytest.mark.parametrize(
    "setting",
    [
        "FAIRLEAD_X=",
        "FAIRLEAD_SHARE=a b=c;$(id) is only text",
        "NVIDIA_VISIBLE_DEVICES=GPU-5a0f,0,0000:01:00.0",
        "NVIDIA_VISIBLE_DEVICES=all",
        "NVIDIA_VISIBLE_DEVICES=void",
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        "HABANA_VISIBLE_DEVICES=0",
        "ASCEND_VISIBLE_DEVICES=0,1",
    ],
)
def test_documented_variables_are_allowed(setting: str) -> None:
    assert env_fault(setting) is None
