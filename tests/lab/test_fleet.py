"""Fleet files: their groups become nodes; a bad field is rejected by its name."""

from pathlib import Path

import pytest

from fairlead.catalog import Catalog
from fairlead.errors import FleetError
from fairlead.lab.control import kwok_nodes
from fairlead.lab.control.fleet import Fleet, load_fleet, plain_fleet
from fairlead.publish.labels import labels

EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet.toml"


def read(folder: Path, text: str, catalog: Catalog, name: str = "fleet.toml") -> Fleet:
    path = folder / name
    path.write_text(text)
    return load_fleet(str(path), catalog)


def test_the_example_is_a_mixed_fleet(catalog: Catalog) -> None:
    nodes = kwok_nodes.manifests(load_fleet(str(EXAMPLE), catalog), catalog)
    names = [node["metadata"]["name"] for node in nodes]
    assert names == ["nano-0", "nano-1", "nano-2", "pi-0", "pi-1", "server-0"]
    capacity = {node["metadata"]["name"]: node["status"]["capacity"] for node in nodes}
    assert capacity["nano-0"]["fairlead.dev/jetson-nano"] == "1"
    assert capacity["pi-1"]["fairlead.dev/coral-usb"] == "1"
    assert "fairlead.dev/gpu-mem" not in capacity["pi-1"]
    assert capacity["server-0"]["fairlead.dev/a10"] == "4"
    assert capacity["server-0"]["fairlead.dev/gpu-mem"] == str(4 * 24 * 1024)
    assert nodes[0]["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert nodes[4]["metadata"]["labels"]["example.com/room"] == "attic"


def test_nodes_carry_the_labels_that_discovery_would_give(catalog: Catalog) -> None:
    fleet = load_fleet(str(EXAMPLE), catalog)
    inventory = kwok_nodes.inventory(fleet.groups[0], catalog)
    node = kwok_nodes.manifests(fleet, catalog)[0]
    assert labels(inventory).items() <= node["metadata"]["labels"].items()
    assert node["metadata"]["labels"]["fairlead.dev/jetson-nano.state"] == "healthy"
    assert node["metadata"]["labels"]["fairlead.dev/jetson-nano.memory-mib"] == "4096"


def test_yaml_and_toml_give_the_same_fleet(tmp_path: Path, catalog: Catalog) -> None:
    toml = '[[group]]\nname = "a"\ncount = 2\ndevices = ["hailo-8", "hailo-8"]\nmemory = "1GiB"\n'
    yaml = 'group:\n- {name: a, count: 2, devices: {hailo-8: 2}, memory: "1GiB"}\n'
    assert read(tmp_path, toml, catalog) == read(tmp_path, yaml, catalog, "fleet.yaml")


def test_a_device_may_have_a_memory_of_its_own(tmp_path: Path, catalog: Catalog) -> None:
    text = '[[group]]\nname = "a"\n[group.devices]\na100 = { count = 2, memory = "80GiB" }\n'
    (node,) = kwok_nodes.manifests(read(tmp_path, text, catalog), catalog)
    assert node["status"]["capacity"]["fairlead.dev/gpu-mem"] == str(2 * 80 * 1024)


def test_every_device_of_the_catalog_gives_a_node(catalog: Catalog, tmp_path: Path) -> None:
    for name in catalog.devices:
        text = f'[[group]]\nname = "a"\ndevices = ["{name}"]\n'
        (node,) = kwok_nodes.manifests(read(tmp_path, text, catalog), catalog)
        assert all(len(value) <= 63 for value in node["metadata"]["labels"].values()), name


def test_a_plain_fleet_has_no_accelerators(catalog: Catalog) -> None:
    nodes = kwok_nodes.manifests(plain_fleet(2), catalog)
    assert [node["metadata"]["name"] for node in nodes] == ["node-0", "node-1"]
    assert set(nodes[0]["status"]["capacity"]) == {"cpu", "memory", "pods"}
    assert plain_fleet(0).size == 0


BAD = {
    "": ("no groups", "[[group]]"),
    "group = 3": ("no groups", "[[group]]"),
    "groups = []\n[[group]]\nname='a'": ("unknown key 'groups'", "did you mean group?"),
    "[[group]]": ("name: None", "lowercase letters"),
    "[[group]]\nname = 'A b'": ("name: 'A b'", "lowercase letters"),
    "[[group]]\nname = 'a'\nnmae = 'b'": ("unknown key 'nmae'", "did you mean name?"),
    "[[group]]\nname = 'a'\n[[group]]\nname = 'a'": ("two groups are called 'a'", "same names"),
    "[[group]]\nname = 'a'\ncount = 0": ("count: 0", "whole number from 1"),
    "[[group]]\nname = 'a'\ncount = -1": ("count: -1", "whole number from 1"),
    "[[group]]\nname = 'a'\ncount = 1.5": ("count: 1.5", "whole number"),
    "[[group]]\nname = 'a'\ncount = true": ("count: True", "whole number"),
    "[[group]]\nname = 'a'\ncpu = nan": ("cpu: nan", "whole number"),
    "[[group]]\nname = 'a'\nmemory = 'lots'": ("memory: 'lots' is not", ""),
    "[[group]]\nname = 'a'\nmemory = 4": ("memory: 4", "4GiB"),
    "[[group]]\nname = 'a'\nmemory = '1'": ("memory: '1'", "4GiB"),
    "[[group]]\nname = 'a'\narch = 'z80'": ("arch: unknown 'z80'", "aarch64"),
    "[[group]]\nname = 'a'\nboard = 3": ("board: 3 is not text", ""),
    "[[group]]\nname = 'a'\ndevices = ['jetson-nan']": ("no device 'jetson-nan'", "did you mean jetson-nano"),
    "[[group]]\nname = 'a'\ndevices = 'coral-usb'": ("devices: neither a list", "devices ="),
    "[[group]]\nname = 'a'\ndevices = {coral-usb = 65}": ("coral-usb: 65", "from 1 to 64"),
    "[[group]]\nname = 'a'\ndevices = {coral-usb = 40, a10 = 40}": ("more than 64 in one node", "more nodes"),
    "[[group]]\nname = 'a'\ndevices = {a10 = {mem = '1GiB'}}": ("unknown key 'mem'", "did you mean memory?"),
    "[[group]]\nname = 'a'\nlabels = {'a b' = 'c'}": ("'a b' is not a label key", "example.com/room"),
    "[[group]]\nname = 'a'\nlabels = {a = 3}": ("a: 3 is not a label value", "in quotes"),
    "[[group]]\nname = 'a'\nresources = {gpu = 3}": ("'gpu' is not an extended resource", "nvidia.com/gpu"),
    "[[group]]\nname = 'a'\nresources = {'a/b' = -3}": ("a/b: -3", "whole number"),
    "[[group]]\nname = 'a'\ncount = 15000\n[[group]]\nname = 'b'\ncount = 15000": ("30000 nodes", "20000"),
    "[[group": ("not TOML", ""),
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_fleet_is_rejected_with_the_bad_field(text: str, tmp_path: Path, catalog: Catalog) -> None:
    message, hint = BAD[text]
    with pytest.raises(FleetError) as caught:
        read(tmp_path, text, catalog)
    assert message in str(caught.value)
    assert str(tmp_path / "fleet.toml") in str(caught.value)
    assert hint in caught.value.hint


def test_a_yaml_bomb_is_rejected(tmp_path: Path, catalog: Catalog) -> None:
    levels = [f"a{at}: &a{at} [{','.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 9)]
    bomb = "\n".join(["a0: &a0 [x,x,x]", *levels, "group: [*a8]\n"])
    with pytest.raises(FleetError, match="not YAML: more than 4000000 values"):
        read(tmp_path, bomb, catalog, "fleet.yaml")
    with pytest.raises(FleetError, match="2 documents"):
        read(tmp_path, "group: []\n---\ngroup: []\n", catalog, "fleet.yaml")
    with pytest.raises(FleetError, match="not YAML"):
        read(tmp_path, "a: [", catalog, "fleet.yaml")


def test_an_unreadable_file_is_rejected(tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(FleetError, match="No such file"):
        load_fleet(str(tmp_path / "none.toml"), catalog)
    with pytest.raises(FleetError, match="Is a directory"):
        load_fleet(str(tmp_path), catalog)
    with pytest.raises(FleetError, match="larger than 1 MiB"):
        read(tmp_path, "#" * (1 << 20) + "\n", catalog)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FleetError, match="not TOML"):
        load_fleet(str(tmp_path / "bytes.toml"), catalog)
