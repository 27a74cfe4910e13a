"""A spec is accepted only if everything in it is allowed; the refusal names what is not, and where."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.warden.spec import quote, render, violation
from tests.warden.specs import (
    ACCELERATORS,
    CLAIM,
    CLAIM_MOUNT,
    FILES,
    HOSTILE,
    bent,
    claim,
    good,
    limited_claim,
)

KNOWN = {"cdiVersion", "kind", "devices", "name", "containerEdits", "env", "deviceNodes"}
KNOWN |= {"mounts", "containerPath", "options", "path", "hostPath", "type", "major", "minor", "permissions"}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(KNOWN)) | st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


def absent(path: str) -> str | None:
    """Check a node on a machine without any device node."""
    return None


def why_not(spec: Any, file: str = ACCELERATORS, root: str = "") -> str | None:
    return violation(file, spec, root, absent)


def test_an_allowed_spec_is_accepted() -> None:
    assert why_not(good()) is None
    file, spec = claim()
    assert why_not(spec, file) is None


@pytest.mark.parametrize(("path", "value", "says"), HOSTILE, ids=lambda part: ascii(part)[:40])
def test_forbidden_content_is_refused_by_its_rule(path: str, value: Any, says: str) -> None:
    why = why_not(bent(path, value))
    assert why is not None
    assert says in why
    assert why.isascii()
    assert why.isprintable()
    assert len(why) < 400


OWN = str(CLAIM_MOUNT["hostPath"])
MOUNTS: list[tuple[dict[str, Any], str]] = [
    *(
        ({"hostPath": path}, "mounts[0].hostPath: ")
        for path in (
            "/",
            "/run/fairlead-mps",
            "/run/fairlead-mps/",
            "/run/fairlead-mps/limit.sock",
            "/run/fairlead-mps/1f8fad5bd9cb469fa16570867728950e/pipe",
            f"{OWN}/",
            f"{OWN}/..",
            f"{OWN}/../../../../etc",
            f"{OWN}\n",
            f"/{OWN}",
            f"/host{OWN}",
            OWN.removesuffix("/pipe"),
            OWN.replace("/pipe", "/log"),
            OWN.upper(),
            [OWN],
            None,
        )
    ),
    *(
        ({"containerPath": path}, "mounts[0].containerPath: ")
        for path in ("/", "/tmp", "/tmp/nvidia-mps/", "/tmp/nvidia-mps/../../etc", "/usr/lib", "", None)
    ),
    *(
        ({"options": options}, "mounts[0].options: only ro, nosuid, nodev, noexec, bind")
        for options in (
            [],
            ["rw", "bind"],
            ["bind"],
            ["ro", "nosuid", "nodev", "noexec", "rbind"],
            "ro",
            None,
        )
    ),
    ({"options": [*CLAIM_MOUNT["options"], "rw"]}, "mounts[0].options: only"),
    ({"options": ...}, "mounts[0].options: missing"),
    ({"hostPath": ...}, "mounts[0].hostPath: missing"),
    ({"containerPath": ...}, "mounts[0].containerPath: missing"),
    ({"type": "overlay"}, "mounts[0].type: not allowed"),
    ({"HostPath": "/"}, "mounts[0].HostPath: not allowed"),
]


@pytest.mark.parametrize(("change", "says"), MOUNTS, ids=lambda part: ascii(part)[:40])
def test_a_claim_mounts_the_sockets_of_its_own_daemon_and_nothing_else(
    change: dict[str, Any], says: str
) -> None:
    file, spec = limited_claim()
    assert why_not(spec, file) is None
    assert json.loads(render(spec))["devices"][0]["containerEdits"]["mounts"] == [CLAIM_MOUNT]
    file, spec = limited_claim(**change)
    assert says in (why_not(spec, file) or "")


@pytest.mark.parametrize("mounts", [[], [CLAIM_MOUNT] * 2, {}, CLAIM_MOUNT, "x", [1], None])
def test_a_claim_has_one_mount(mounts: Any) -> None:
    file, spec = limited_claim()
    spec["devices"][0]["containerEdits"]["mounts"] = mounts
    assert "containerEdits.mounts" in (why_not(spec, file) or "")


@pytest.mark.parametrize("spec", [None, [], "x", 1, True])
def test_a_spec_is_an_object(spec: Any) -> None:
    assert why_not(spec) == "spec: must be an object"


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_another_name_is_refused(file: str) -> None:
    why = why_not(good(), file)
    assert why is not None
    assert "not a file name of ours" in why


def test_a_claim_file_may_not_have_the_accelerator_kind() -> None:
    assert "only 'fairlead.dev/claim'" in (why_not(good(), CLAIM) or "")


def test_a_node_may_lie_below_the_configured_root_and_below_no_other() -> None:
    path = "devices.0.containerEdits.deviceNodes.0.hostPath"
    assert why_not(bent(path, "/lab/dev/apex_0"), root="/lab") is None
    assert why_not(bent(path, "/dev/apex_0"), root="/lab") is None
    assert "hostPath" in (why_not(bent(path, "/lab/dev/apex_1"), root="/lab") or "")
    assert "hostPath" in (why_not(bent(path, "/lab/dev/apex_0"), root="/other") or "")


def test_a_fault_of_the_device_node_is_a_refusal() -> None:
    why = violation(ACCELERATORS, good(), "", lambda path: "it is a link" if "apex" in path else None)
    assert why == "devices[0].containerEdits.deviceNodes[0].path: '/dev/apex_0': it is a link"


def test_the_written_spec_leaves_no_field_to_a_default() -> None:
    data = render(good())
    assert data.endswith(b"\n")
    nodes = json.loads(data)["devices"][0]["containerEdits"]["deviceNodes"]
    assert [node["type"] for node in nodes] == ["c", "c"]
    assert [node["permissions"] for node in nodes] == ["r", "rw"]
    assert why_not(json.loads(data)) is None
    assert render(json.loads(data)) == data


def test_untrusted_input_fits_in_a_line() -> None:
    assert quote("a\nb\x1b[2J") == r"'a\nb\x1b[2J'"
    assert len(quote("x" * 10_000)) < 100
    assert quote([[[]]]) == "a list"


def keys(value: Any) -> set[str]:
    """Return every key anywhere in a value."""
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys(inner)}
    return {key for inner in value for key in keys(inner)} if isinstance(value, list) else set()


@given(JSON)
def test_any_spec_is_accepted_or_refused(spec: Any) -> None:
    assert why_not(spec) is not None or keys(spec) <= KNOWN


@given(st.sampled_from([path for path, _, _ in HOSTILE]), JSON)
def test_any_value_anywhere_is_accepted_or_refused(path: str, value: Any) -> None:
    spec = bent(path, value) if value is not None else good()
    why = why_not(spec)
    assert why is None or (why.isascii() and why.isprintable())
    assert why is not None or keys(spec) <= KNOWN
