"""What a container receives, on every kind of captured test host."""

from pathlib import Path

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import detect
from fairlead.detect.capture import read_gpus
from fairlead.host import Host
from fairlead.offer import DeviceNode, Grant
from fairlead.publish.access import env_variable, grant, merge, nvidia_cdi_present, without_cdi
from fairlead.publish.parts import resource_name
from tests.accelerators import accelerator
from tests.worlds import Entry, Link, Special, World, pci, platform

HOSTS = Path(__file__).parent.parent / "hosts"
GPU_1, GPU_2 = (f"GPU-00000000-0000-0000-0000-00000000000{n}" for n in (1, 2))


def nvidia(which: str) -> dict[str, str]:
    """Return the variables of NVIDIA's runtime."""
    return {"NVIDIA_VISIBLE_DEVICES": which, "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


XAVIER = [f"nvhost-{name}" for name in ("gpu", "ctrl-gpu", "ctrl-nvdla0", "ctrl-nvdla1", "nvdla0", "nvdla1")]


def grants(name: str, catalog: Catalog) -> dict[str, Grant]:
    """Return the grant of each accelerator of a test host."""
    host = Host(str(HOSTS / name / "root"))
    inventory = detect(host, catalog, read_gpus(host))
    return {
        acc.id: grant(acc, host, resource=resource_name(acc))
        for acc in inventory.accelerators
        if acc.kind != "cpu"
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("server-h200", [(nvidia(GPU_1), []), (nvidia(GPU_2), [])]),
        ("server-t4", [(nvidia("GPU-00000000-0000-0000-0000-000000000000"), [])]),
        # Neither an id nor a number is known: the bus address identifies it as well.
        ("server-two-t4-without-proc", [(nvidia("0000:3b:00.0"), []), (nvidia("0000:af:00.0"), [])]),
        ("jetson-agx-xavier", [(nvidia("all"), XAVIER)]),
        ("jetson-orin-nano", [(nvidia("all"), ["nvhost-gpu", "nvgpu/igpu0/ctrl"])]),
        ("coral-dual", [({}, ["apex_0"]), ({}, ["apex_1"])]),
        ("raspberry-pi-5-hailo", [({}, ["hailo0"])]),
        ("hailo-10h", [({}, ["h1x-0"])]),
        ("mi300x", [({}, ["dri/renderD128", "dri/card1", "kfd"])]),
        ("arc-b580", [({}, ["dri/renderD128", "dri/card0"])]),
        ("amd-phoenix-laptop", [({}, ["dri/renderD128", "dri/card1", "kfd"]), ({}, ["accel/accel0"])]),
        ("meteor-lake-laptop", [({}, ["dri/renderD128", "dri/card1"]), ({}, ["accel/accel0"])]),
        ("rock-5b-vendor", [({}, ["dri/renderD129", "dri/card1"])]),  # renderD128 is the display's
        ("rock-5b-mainline", [({}, ["accel/accel0"])]),
        ("imx8mp-vendor", [({}, ["galcore"])]),
        ("qcs6490", [({}, ["fastrpc-cdsp"])]),
        ("coral-pcie-1-present", [({}, [])]),
    ],
)
def test_a_machine(name: str, expected: list[tuple[dict[str, str], list[str]]], catalog: Catalog) -> None:
    received = [
        (
            {key: value for key, value in granted.env.items() if not key.startswith("FAIRLEAD_")},
            [node.path.removeprefix("/dev/") for node in granted.nodes],
        )
        for granted in grants(name, catalog).values()
    ]
    assert received == expected


def test_the_variables_that_every_container_gets(catalog: Catalog) -> None:
    (granted,) = grants("raspberry-pi-5-hailo", catalog).values()
    assert granted.env == {
        "FAIRLEAD_DEVICE": "pci-0001-01-00-0",
        "FAIRLEAD_DEVICE_HAILO_8_OR_HAILO_8L": "pci-0001-01-00-0",
        "FAIRLEAD_MODEL": "hailo-8-or-hailo-8l",
    }


def test_a_share(world: World) -> None:
    acc = accelerator(driver="nvidia", uuid=GPU_1, mebibytes=100, model="t4")
    granted = grant(acc, world({}), resource="fairlead.dev/gpu-mem", memory=40, share="web", nvidia="cdi")
    assert granted == Grant(
        {
            "FAIRLEAD_DEVICE": acc.id,
            "FAIRLEAD_DEVICE_GPU_MEM": acc.id,
            "FAIRLEAD_MODEL": "t4",
            "FAIRLEAD_MEMORY_MIB": "40",
            "FAIRLEAD_SHARE": "web",
            "NVIDIA_VISIBLE_DEVICES": "void",
        },
        cdi=(f"nvidia.com/gpu={GPU_1}",),
    )


def test_a_gpu_without_an_id_is_identified_by_its_number(world: World) -> None:
    acc = accelerator(driver="nvidia", node="/dev/nvidia3")
    assert grant(acc, world({}), resource="x").env["NVIDIA_VISIBLE_DEVICES"] == "3"
    assert grant(acc, world({}), resource="x", nvidia="cdi").cdi == ("nvidia.com/gpu=3",)


def test_a_jetson_grants_its_own_nodes_and_not_those_of_a_card(world: World) -> None:
    soc, card = "platform/host1x/drm", "pci0000:00/0005:01:00.0/drm"
    nodes = ("nvmap", "nvhost-gpu", "nvhost-nvdec", "nvgpu/igpu0/as", "nvgpu/igpu0/ctrl", "nvidia0")
    files: dict[str, Entry] = {
        **platform("17000000.gpu", driver="gk20a"),
        **platform("host1x", drm__card0__dev="", drm__renderD128__dev=""),
        **pci("0005:01:00.0", "10de:1eb8", drm__card1__dev="", drm__renderD129__dev=""),
        **{f"/dev/{name}": "" for name in nodes},
    }
    for name, home in (("card0", soc), ("renderD128", soc), ("card1", card), ("renderD129", card)):
        files |= {f"/dev/dri/{name}": "", f"/sys/class/drm/{name}": Link(f"../../devices/{home}/{name}")}
    acc = accelerator("platform:17000000.gpu", vendor="NVIDIA", driver="gk20a", node="/dev/nvhost-gpu")
    granted = grant(acc, world(files), resource="x", nvidia="cdi")
    assert [node.path for node in granted.nodes] == [
        "/dev/nvhost-gpu",
        "/dev/nvhost-nvdec",
        "/dev/nvmap",
        "/dev/nvgpu/igpu0/as",
        "/dev/nvgpu/igpu0/ctrl",
        "/dev/dri/card0",
        "/dev/dri/renderD128",
    ]
    assert granted.cdi == ("nvidia.com/gpu=all",)


def test_gaudi_is_granted_with_its_control_node_and_its_number(world: World) -> None:
    files = {
        **pci("0000:01:00.0", "1da3:1020", accel__accel2__dev="", accel__accel_controlD2__dev=""),
        **{f"/dev/accel/{name}": "" for name in ("accel0", "accel2", "accel_controlD0", "accel_controlD2")},
    }
    granted = grant(accelerator(driver="habanalabs", node="/dev/accel/accel2"), world(files), resource="x")
    assert [node.path for node in granted.nodes] == ["/dev/accel/accel2", "/dev/accel/accel_controlD2"]
    assert granted.env["HABANA_VISIBLE_DEVICES"] == "2"


def test_without_dev_sysfs_decides_which_nodes_exist(world: World) -> None:
    host = world(pci("0000:01:00.0", "8086:7d1d", accel__accel0__dev=""))
    granted = grant(accelerator(driver="intel_vpu"), host, resource="x", device_root="/host")
    assert granted.nodes == (DeviceNode("/dev/accel/accel0", "/host/dev/accel/accel0"),)


def test_a_chip_with_a_second_node(world: World) -> None:
    host = world({f"/dev/memx{n}": "" for n in ("0", "0_feature", "1", "1_feature")})
    granted = grant(accelerator(driver="memx_pcie_ai_chip", node="/dev/memx1"), host, resource="x")
    assert [node.path for node in granted.nodes] == ["/dev/memx1", "/dev/memx1_feature"]


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("fairlead.dev/gpu-mem", "FAIRLEAD_DEVICE_GPU_MEM"),
        ("fairlead.dev/hailo-8-or-hailo-8l", "FAIRLEAD_DEVICE_HAILO_8_OR_HAILO_8L"),
        ("my.claim/gpu", "FAIRLEAD_DEVICE_MY_CLAIM_GPU"),
    ],
)
def test_a_variable_for_each_resource(resource: str, name: str) -> None:
    assert env_variable(resource) == name


def test_several_accelerators(catalog: Catalog) -> None:
    both = merge(grants("server-h200", catalog).values())
    ids = "pci-0000-1b-00-0,pci-0000-43-00-0"
    assert both.env == {
        "FAIRLEAD_DEVICE": ids,
        "FAIRLEAD_DEVICE_H200": ids,
        "FAIRLEAD_MODEL": "h200,h200",
        **nvidia(f"{GPU_1},{GPU_2}"),
    }
    mixed = merge([*grants("mi300x", catalog).values(), *grants("coral-dual", catalog).values()] * 2)
    assert [node.path[5:] for node in mixed.nodes] == [
        "dri/renderD128",
        "dri/card1",
        "kfd",
        "apex_0",
        "apex_1",
    ]
    assert merge([]) == Grant()


def test_without_cdi_a_stick_is_granted_with_its_bus(catalog: Catalog) -> None:
    both = merge(grants("coral-usb-two", catalog).values())
    assert len(both.nodes) == 10
    assert without_cdi(both).nodes == (DeviceNode("/dev/bus/usb/002", "/dev/bus/usb/002"),)
    (hailo,) = grants("raspberry-pi-5-hailo", catalog).values()
    assert without_cdi(hailo) == hailo


YAML = "---\ncdiVersion: 0.5.0\ndevices:\n- name: all\nkind: nvidia.com/gpu\n"


@pytest.mark.parametrize(
    ("path", "text", "present"),
    [
        ("/etc/cdi/nvidia.yaml", YAML, True),
        ("/run/cdi/nvidia.yaml", YAML, True),
        ("/var/run/cdi/plugin.json", '{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[]}', True),
        ("/etc/cdi/nvidia.yaml", f"{' ' * 70_000}\n{YAML}", True),
        ("/etc/cdi/nvidia.yaml.bak", YAML, False),
        ("/etc/cdi/other.yaml", "kind: nvidia.com/gpu.shared\n", False),
        ("/etc/cdi/other.json", '{"kind": "intel.com/gpu", "about": "nvidia.com/gpu"}', False),
        ("/etc/cdi/odd.json", Special.FIFO, False),
    ],
)
def test_whether_nvidia_has_a_cdi_spec(path: str, text: str | Special, present: bool, world: World) -> None:
    assert nvidia_cdi_present(world({path: text})) is present
