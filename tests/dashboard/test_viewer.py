"""What a viewer of some namespaces sees of each row."""

import msgspec

from fairlead.dashboard.answers import WhyAnswer, WhyReason
from fairlead.dashboard.row_types import (
    DeviceRow,
    NodeRow,
    ProposalRow,
    Row,
    ShareOfDevice,
    SimulationRow,
    WorkloadRow,
)
from fairlead.dashboard.viewer import TenantNames, Viewer, scrub_text, visible

SHOP = Viewer("ann", frozenset({"shop"}))
SHARES = (
    ShareOfDevice(holder="shop/web", name="web", requested_bytes=1),
    ShareOfDevice(holder="bank/vault", name="vault", requested_bytes=2, whole=True),
    ShareOfDevice(name="python3 (77)", requested_bytes=0),
)
DEVICE = DeviceRow(
    key="n/d", node="n", device="d", state="healthy", shares=SHARES, reason="held by bank/vault"
)
MINE = WorkloadRow(
    key="shop/job",
    kind="pod",
    namespace="shop",
    name="job",
    state="waiting",
    why="waits for bank/vault to end",
)
THEIRS = WorkloadRow(
    key="bank/vault", kind="pod", namespace="bank", name="vault", state="running", gang="heist"
)
NODE = NodeRow(
    key="n", name="n", state="ready", reason="pod bank/vault: unreadable", cpu_milli=1, memory_bytes=1
)


def names() -> TenantNames:
    known = TenantNames()
    known.on_rows("workloads", [MINE, THEIRS], ())
    return known


def shown(row: Row, viewer: Viewer = SHOP) -> Row | None:
    return visible(row, viewer, names().scrubber(viewer))


def test_other_tenants_shares_have_no_name() -> None:
    device = shown(DEVICE)
    assert isinstance(device, DeviceRow)
    assert [(share.holder, share.name) for share in device.shares] == [
        ("shop/web", "web"),
        (None, "other"),
        (None, "other"),
    ]
    assert device.shares[1].requested_bytes == 2
    assert "bank" not in str(msgspec.to_builtins(device))


def test_rows_of_other_namespaces_are_invisible() -> None:
    assert shown(THEIRS) is None
    proposal = ProposalRow(
        key="p",
        namespace="bank",
        workload="vault",
        what="",
        now_bytes=2,
        proposed_bytes=1,
        saves_bytes=1,
        command="",
    )
    assert shown(proposal) is None
    assert shown(SimulationRow(key="s", name="s", policy="p", nodes=1, jobs=1)) is None


def test_texts_name_no_other_tenant() -> None:
    mine, node = shown(MINE), shown(NODE)
    assert isinstance(mine, WorkloadRow)
    assert isinstance(node, NodeRow)
    assert mine.why == "waits for other to end"
    assert node.reason == "pod other: unreadable"


def test_explanations_name_no_other_tenant() -> None:
    answer = WhyAnswer(
        key="shop/job",
        fits=False,
        state="waiting",
        summary="after vault, of the gang heist, shop/web goes on",
        reasons=(WhyReason(count=1, of=2, text="held by bank/vault", example="n/d"),),
        notes=("evicted: bank/vault,",),
        decided=0,
        source="the scheduler",
        command="fairlead explain shop/job",
    )
    scrubbed = scrub_text(answer, names().scrubber(SHOP))
    assert scrubbed.summary == "after other, of the gang other, shop/web goes on"
    assert scrubbed.reasons[0].text == "held by other"
    assert scrubbed.notes == ("evicted: other,",)
    assert scrubbed.command == "fairlead explain shop/job"


def test_name_of_two_namespaces_stays_for_who_sees_one() -> None:
    known = names()
    known.add("web", "bank")
    known.add("web", "shop")
    assert known.scrubber(SHOP)("web and vault") == "web and other"


def test_viewer_without_nodes_sees_no_accelerator() -> None:
    viewer = Viewer("ben", frozenset({"shop"}), nodes=False)
    assert shown(NODE, viewer) is None
    assert shown(DEVICE, viewer) is None
    assert shown(MINE, viewer) is not None


def test_unrestricted_viewer_sees_rows_as_they_are() -> None:
    assert shown(DEVICE, Viewer("root")) is DEVICE
