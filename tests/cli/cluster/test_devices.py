"""`fairlead devices`: devices of slices in files and on a real API server, and the selectors that match."""

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.manifest.types import kinds
from tests.cli.examples import Run
from tests.labs import RealCluster

SLICES = str(Path(__file__).parents[2] / "cel" / "slices.json")
KEYS = ["node", "driver", "pool", "name", "matches", "error"]
NVIDIA = 'device.driver == "gpu.nvidia.com"'


def resource_slice(name: str, devices: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """Return a slice of the driver `example.org`."""
    body = {"driver": "example.org", "pool": {"name": name, "generation": 1}, "devices": devices, **spec}
    version = "resource.k8s.io/v1"
    return {"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": body}


def device_of_kind(name: str, kind: str) -> dict[str, Any]:
    """Return a device with an attribute `kind`, or without it if `kind` is empty."""
    return {"name": name, "attributes": {"kind": {"string": kind}} if kind else {}}


def device_class(name: str, *selectors: str) -> dict[str, Any]:
    conditions = [{"cel": {"expression": selector}} for selector in selectors]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": conditions},
    }


def subrequest(name: str, class_name: str, *selectors: str) -> dict[str, Any]:
    conditions = [{"cel": {"expression": selector}} for selector in selectors]
    return {"name": name, "deviceClassName": class_name, "selectors": conditions}


def exact_request(name: str, class_name: str, *selectors: str) -> dict[str, Any]:
    request = subrequest(name, class_name, *selectors)
    del request["name"]
    return {"name": name, "exactly": request}


def claim(name: str, *requests: dict[str, Any], namespace: str = "", version: str = "v1") -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"devices": {"requests": list(requests)}},
    }


KIND = 'device.attributes["example.org"].kind'
BOARDS = resource_slice(
    "a",
    [device_of_kind("gpu-0", "gpu"), device_of_kind("npu-0", "npu"), device_of_kind("odd-0", "")],
    nodeName="n1",
)


@pytest.fixture
def file(tmp_path: Path) -> "Writer":
    return Writer(tmp_path)


class Writer:
    """Writes objects as one file of several YAML documents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *documents: dict[str, Any]) -> str:
        path = self.folder / "cluster.yaml"
        path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
        return str(path)


def list_devices(run: Run, *words: str) -> list[dict[str, Any]]:
    code, out, err = run("devices", *words, "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document) == ["devices"]
    found: list[dict[str, Any]] = document["devices"]
    return found


def match_results(run: Run, *words: str) -> list[bool | str]:
    """Return of each device whether it matches, or the error."""
    return [list_device["error"] or list_device["matches"] for list_device in list_devices(run, *words)]


def test_lists_every_device_in_the_order_of_the_file(run: Run) -> None:
    devices = list_devices(run, "-f", SLICES, "--select", NVIDIA)
    assert all(list(device) == KEYS for device in devices)
    assert [(device["node"], device["name"], device["matches"]) for device in devices] == [
        ("server-0", "gpu-0", True),
        ("server-0", "gpu-1-mig-1g10gb-19-2", True),
        ("board-0", "jetson-orin-nano-0", False),
        ("board-0", "coral-usb-0", False),
        (None, "nic-0", False),
        ("server-1", "shared-0", False),
        ("server-1", "exclusive-0", False),
        ("server-1", "empty-0", False),
    ]
    assert {device["error"] for device in devices} == {None}
    assert (devices[4]["driver"], devices[4]["pool"]) == ("net.example.org", "fabric")


def test_without_a_selector_every_device_matches(run: Run) -> None:
    assert match_results(run, "-f", SLICES) == [True] * 8


def test_an_error_is_never_a_match(run: Run, file: Writer) -> None:
    path = file(BOARDS)
    assert match_results(run, "-f", path, "--select", f'{KIND} == "gpu"') == [
        True,
        False,
        "no such key: kind",
    ]
    (_, _, odd) = list_devices(run, "-f", path, "--select", f'{KIND} == "gpu"')
    assert odd["matches"] is False
    table = run("devices", "-f", path, "--select", f'{KIND} == "gpu"')[1].splitlines()
    assert table[0].split() == ["NODE", "DRIVER", "POOL", "DEVICE", "MATCHES", "ERROR"]
    assert [line.split()[4] for line in table[1:]] == ["yes", "no", "error"]
    assert table[3].endswith("no such key: kind")


@pytest.mark.parametrize(
    ("expression", "place", "shown"),
    [
        ('devic.driver == "x"', "1:1", 'devic.driver == "x"\n    ^'),
        ("true &&\n  devic.driver", "2:3", "  devic.driver\n      ^"),
        ("device.driver", "", "device.driver"),
    ],
)
def test_an_expression_that_does_not_compile_is_refused_with_its_position(
    run: Run, expression: str, place: str, shown: str
) -> None:
    code, out, err = run("devices", "-f", SLICES, "--select", expression, "-o", "json")
    assert (code, out) == (2, "")
    assert err.startswith(f"fairlead: --select: {place}")
    assert f"    {shown}" in err
    assert "fairlead docs devices" in err


def test_a_long_expression_is_shown_around_the_error(run: Run) -> None:
    long = " || ".join(["true"] * 100) + " || devic"
    code, _, err = run("devices", "-f", SLICES, "--select", long)
    assert code == 2
    line, mark = err.splitlines()[1:3]
    assert line[mark.index("^") :].startswith("devic")
    assert len(line) <= 100


def test_an_expression_is_compiled_before_the_cluster_is_read(run: Run, tmp_path: Path) -> None:
    code, _, err = run("devices", "--kubeconfig", str(tmp_path / "none"), "--select", "devic")
    assert code == 2
    assert "--select: 1:1:" in err


def test_all_selectors_of_a_class_must_hold(run: Run, file: Writer) -> None:
    path = file(BOARDS, device_class("fast", 'device.driver == "example.org"', f'{KIND} == "npu"'))
    assert match_results(run, "-f", path, "--class", "fast") == [False, True, "no such key: kind"]
    both = ("--class", "fast", "--select", f"has({KIND})")
    assert match_results(run, "-f", path, *both) == [False, True, False]


def test_a_claim_has_the_selectors_of_its_class_and_its_own(run: Run, file: Writer) -> None:
    path = file(
        BOARDS,
        device_class("any"),
        device_class("named", f"has({KIND})"),
        claim("one", exact_request("r", "named", f'{KIND} == "gpu"')),
        claim(
            "two",
            exact_request("all", "any"),
            exact_request("gpu", "any", f'{KIND} == "gpu"'),
            namespace="shop",
        ),
        claim(
            "first",
            {
                "name": "r",
                "firstAvailable": [subrequest("npu", "named", f'{KIND} == "npu"'), subrequest("x", "any")],
            },
        ),
    )
    one = list_devices(run, "-f", path, "--claim", "one")
    assert all(list(each) == [*KEYS, "requests"] for each in one)
    assert [(each["matches"], each["requests"]) for each in one] == [(True, ["r"]), (False, []), (False, [])]
    two = list_devices(run, "-f", path, "--claim", "two", "-n", "shop")
    assert [each["requests"] for each in two] == [["all", "gpu"], ["all"], ["all"]]
    assert [each["error"] for each in two] == [None, None, "request gpu: no such key: kind"]
    assert two == list_devices(run, "-f", path, "--claim", "shop/two")
    first = list_devices(run, "-f", path, "--claim", "first")
    assert [each["requests"] for each in first] == [["r/x"], ["r/npu", "r/x"], ["r/x"]]
    table = run("devices", "-f", path, "--claim", "one")[1].splitlines()
    assert table[0].split()[-1] == "REQUESTS"


def test_a_claim_template_is_a_claim(run: Run, file: Writer) -> None:
    made = claim("t", exact_request("r", "any", f'has({KIND}) && {KIND} == "gpu"'))
    template = {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}
    assert match_results(run, "-f", file(BOARDS, device_class("any"), template), "--claim", "t") == [
        True,
        False,
        False,
    ]


def test_older_versions_of_the_api_are_read(run: Run, file: Writer) -> None:
    old = resource_slice(
        "old", [{"name": "d", "basic": {"attributes": {"kind": {"string": "gpu"}}}}], nodeName="n"
    )
    per_device = resource_slice(
        "far", [{**device_of_kind("e", "gpu"), "nodeName": "n2"}], perDeviceNodeSelection=True
    )
    path = file(
        {**old, "apiVersion": "resource.k8s.io/v1beta1"},
        {**per_device, "apiVersion": "resource.k8s.io/v1beta2"},
        device_class("any"),
        claim("c", subrequest("r", "any", f'{KIND} == "gpu"'), version="v1beta1"),
    )
    found = list_devices(run, "-f", path, "--claim", "c")
    assert [(each["node"], each["matches"]) for each in found] == [("n", True), ("n2", True)]


def test_slices_of_an_older_generation_are_marked(run: Run, file: Writer) -> None:
    newer = resource_slice("b", [device_of_kind("d", "gpu")], pool={"name": "a", "generation": 2})
    table = run("devices", "-f", file(BOARDS, newer), "--no-headers")[1].splitlines()
    assert ["(outdated)" in line for line in table] == [True, True, True, False]


def test_prints_for_people_and_for_scripts(run: Run, file: Writer) -> None:
    path = file(BOARDS)
    only = ("--select", f'has({KIND}) && {KIND} == "npu"')
    assert run("devices", "-f", path, *only, "-o", "name")[1] == "example.org/a/npu-0\n"
    whole = run("devices", "-f", path)[1].splitlines()
    assert whole[0].split() == ["NODE", "DRIVER", "POOL", "DEVICE", "MATCHES"]
    assert run("devices", "-f", path, "--no-headers")[1].splitlines() == whole[1:]
    assert "kind=npu" in run("devices", "-f", path, "-o", "wide")[1]
    as_yaml = yaml.safe_load(run("devices", "-f", path, *only, "-o", "yaml")[1])
    assert as_yaml["devices"] == list_devices(run, "-f", path, *only)


def test_reads_the_standard_input_lists_and_single_objects(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = tmp_path / "one.json"
    one.write_text(json.dumps(BOARDS))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(one.read_bytes())))
    assert list_devices(run, "-f", "-") == list_devices(run, "-f", str(one))
    bare = {key: value for key, value in BOARDS.items() if key in ("metadata", "spec")}
    whole = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": [bare]}
    one.write_text(json.dumps(whole))
    assert [list_device["name"] for list_device in list_devices(run, "-f", str(one))] == [
        "gpu-0",
        "npu-0",
        "odd-0",
    ]
    one.write_text(json.dumps({**whole, "items": []}))
    assert list_devices(run, "-f", str(one)) == []
    assert run("devices", "-f", str(one))[1] == "no devices\n"


def test_an_attribute_that_cannot_be_read_is_an_error_of_its_device(run: Run, file: Writer) -> None:
    bad = {"name": "bad", "attributes": {"v": {"version": "1.2"}, "kind": {"string": "gpu"}}}
    found = match_results(
        run,
        "-f",
        file(resource_slice("a", [bad, device_of_kind("good", "gpu")])),
        "--select",
        f'{KIND} == "gpu"',
    )
    assert isinstance(found[0], str)
    assert "attribute v: parse semantic version" in found[0]
    assert found[1] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--class", "fats"), "--class: no DeviceClass 'fats'\n  did you mean fast?"),
        (("--claim", "noe"), "neither a ResourceClaim nor a ResourceClaimTemplate default/noe"),
        (("--claim", "far"), "there is one in the namespace shop: add -n shop"),
        (("--claim", "lost"), "requests[0].exactly.deviceClassName: no DeviceClass 'gone'"),
        (
            ("--claim", "bad"),
            "ResourceClaim default/bad: spec.devices.requests[0].exactly.selectors[0]: 1:1:",
        ),
        (("--class", "worse"), "DeviceClass worse: spec.selectors[0]: 1:1:"),
        (("--claim", "shop/far", "-n", "other"), "leave one out"),
    ],
)
def test_a_missing_object_is_named(run: Run, file: Writer, words: tuple[str, ...], message: str) -> None:
    path = file(
        BOARDS,
        device_class("fast"),
        device_class("worse", "devic"),
        claim("far", exact_request("r", "fast"), namespace="shop"),
        claim("lost", exact_request("r", "gone")),
        claim("bad", exact_request("r", "fast", "devic")),
    )
    code, out, err = run("devices", "-f", path, *words)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("{", "neither JSON"),
        ('{"a": 1}', "neither a Kubernetes object"),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}', "no ResourceSlice in it"),
        (json.dumps(resource_slice("a", [], driver="")), "ResourceSlice a: spec.driver: missing"),
        (json.dumps(resource_slice("a", [{}])), "ResourceSlice a: spec.devices[0].name: missing"),
        (
            json.dumps(resource_slice("a", [{"name": 5}])),
            "ResourceSlice a: spec.devices[0].name: expected `str`",
        ),
    ],
)
def test_an_invalid_file_is_refused_with_the_field(run: Run, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(text)
    code, out, err = run("devices", "-f", str(path))
    assert (code, out) == (2, "")
    assert str(path) in err
    assert message in err
    assert len(err.splitlines()) > 1


def test_a_real_cluster_is_read(real_cluster: RealCluster) -> None:
    name = real_cluster.namespace
    board = resource_slice(name, BOARDS["spec"]["devices"], driver=f"{name}.example.org", nodeName=name)
    board["spec"]["pool"]["resourceSliceCount"] = 1
    select = f'device.driver == "{name}.example.org"'
    request = claim("one", exact_request("r", name, f'device.attributes["{name}.example.org"].kind == "npu"'))
    made = [
        (kinds.SLICE, board, None),
        (kinds.CLASS, device_class(name, select), None),
        (kinds.CLAIM, request, name),
    ]

    async def change(*, create: bool) -> None:
        async with real_cluster.connect() as client:
            for kind, body, namespace in made:
                resource = kinds.resource_kind(kind, "v1").raw()
                if create:
                    await client.create(resource, body, namespace)
                else:
                    await client.delete(resource, body["metadata"]["name"], namespace)

    asyncio.run(change(create=True))
    try:
        words = ("--kubeconfig", str(real_cluster.api.kubeconfig), "--claim", f"{name}/one", "-o", "json")
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", "devices", *words],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        asyncio.run(change(create=False))
    assert (done.returncode, done.stderr) == (0, "")
    mine = [each for each in json.loads(done.stdout)["devices"] if each["node"] == name]
    assert [(each["name"], each["matches"], each["error"]) for each in mine] == [
        ("gpu-0", False, None),
        ("npu-0", True, None),
        ("odd-0", False, "no such key: kind"),
    ]
