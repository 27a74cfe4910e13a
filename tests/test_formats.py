"""Formats with a version: every one that outlives a process, and what is done with a newer one."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fairlead.annotations import ALLOCATIONS, DEVICE_LISTS, AnnotatedAccelerator
from fairlead.compat.times import UTC
from fairlead.errors import NewerFormatError
from fairlead.formats import VersionedFormat
from fairlead.history.learned import LEARNED, LearnedCommand, LearnedRun
from fairlead.inventory import Accelerator, Inventory, Link, Machine, State
from fairlead.job import ProcessRef
from fairlead.ledger.record import JOBS
from fairlead.ledger.spec import SPECS, JobSpec
from fairlead.local.machine.inventory_cache import INVENTORY_CACHE, CachedInventory
from fairlead.local.mps.device import MpsDevice
from fairlead.local.mps.files import STATUS as KEEPER_STATUS
from fairlead.local.mps.files import KeeperStatus
from fairlead.manifest.types.live import LEADER_EPOCHS, LeaderMark
from fairlead.offer import Form, Holder, Holding
from fairlead.pipeline.profile.facts import (
    PIPELINE_PROFILES,
    Basis,
    EdgeFacts,
    LinkFacts,
    MachineFacts,
    PipelineProfile,
    StageCost,
    StageFacts,
)
from fairlead.pipeline.state.record import RECORDS, RunPhase, RunRecord
from fairlead.pipelineobjects.update.record import UPDATES, UpdatePhase, UpdateRecord
from fairlead.pipelineobjects.update.run_status import RunCounts
from fairlead.pipelineobjects.update.verdict import RunWindow
from fairlead.placement import PLACEMENTS
from fairlead.rightsize.change import PREVIOUS_SIZES, SizeChange
from fairlead.serve.agent.pod_resources_tracker import PREPARED_CLAIMS
from fairlead.serve.operator.applied import APPLIED_HASHES, AppliedHash
from fairlead.serve.scheduler.leader import formats
from fairlead.serve.scheduler.leader.in_flight import IN_FLIGHT_SETS, InFlightSet
from fairlead.serve.scheduler.use.store import UNDONE_KEYS
from fairlead.share import DeviceShare
from fairlead.sizing.footprint import Footprint
from fairlead.sizing.footprint_format import FOOTPRINTS
from fairlead.units import BitsPerSecond, Bytes, Seconds
from tests.ledger.jobs import FULL_JOB
from tests.serve.scheduler.next_format import CODECS, adopted

GPU = Accelerator(
    id="gpu-0",
    model="t4",
    name="NVIDIA T4",
    vendor="NVIDIA",
    kind="gpu",
    state=State.HEALTHY,
    reason="",
    confidence=0.99,
    candidates=("t4",),
    bus="pci:0000:3b:00.0",
    link=Link(BitsPerSecond(1e9), BitsPerSecond(2e9)),
)
VALUES: list[tuple[VersionedFormat[Any], Any]] = [
    (PLACEMENTS, (DeviceShare("gpu-0", Bytes(1 << 30)), DeviceShare("gpu-1", whole=True))),
    (IN_FLIGHT_SETS, InFlightSet("a", "b", frozenset({"u1", "u2"}))),
    (LEADER_EPOCHS, LeaderMark(7, "nonce")),
    (ALLOCATIONS, {"gpu-0": {Form.MEMORY: {"default/web/main": 2048}}}),
    (PREPARED_CLAIMS, (Holding("gpu-0", Form.CLAIM, Holder("default", "big", "uid-1"), 2048),)),
    (
        FOOTPRINTS,
        (
            Footprint("app:1", Bytes(2 << 30), Bytes(7 << 30), 45.0, (Bytes(6 << 30),), (3600.0,), 1, 240),
            Footprint("app:2", None, Bytes(1 << 30), 0.0, refused=Bytes(1 << 29), updated=1.5),
        ),
    ),
    (APPLIED_HASHES, AppliedHash("0123456789abcdef", "fedcba9876543210")),
    (PREVIOUS_SIZES, (SizeChange("main", "fairlead.dev/gpu-mem", "8192", "1660"),)),
    (UNDONE_KEYS, ("image:registry/app:1",)),
    (JOBS, FULL_JOB),
    (SPECS, JobSpec(("python3", "train.py"), "/home/ann", {"LANG": "C"}, "/out")),
    (DEVICE_LISTS, (AnnotatedAccelerator("gpu-0", "t4", "NVIDIA", 15360, shareable=True),)),
    (
        LEARNED,
        LearnedCommand(
            "program-1",
            "train.py",
            memory=Footprint("program-1", None, Bytes(1 << 30), 0.0),
            total=1,
            runs=(LearnedRun(1.5, Seconds(2.0), done=True, joules=3.5),),
        ),
    ),
    (
        UPDATES,
        UpdateRecord(
            UpdatePhase.OBSERVING,
            datetime(2026, 11, 19, 1, 2, 3, tzinfo=UTC),
            ("net",),
            "net moves from a to b: image changed",
            {"stages": [{"name": "net"}]},
            1,
            RunCounts(60.5, 1500, 1501, 2, 1, 7, 0.25),
            RunWindow(10.0, 250, 251, 0, 0, 1, 0.2),
            "5d1c0a6e3f7b9c24",
            "12.5 frames/s after the update, 25.0 before",
        ),
    ),
    (
        PIPELINE_PROFILES,
        PipelineProfile(
            "people",
            (MachineFacts("local", 2, 1 << 30), MachineFacts("far", 1, 0, "t4", Basis.PREDICTED)),
            (LinkFacts("local", "far", 1e6, 0.001),),
            (
                StageFacts(
                    "net", 0.5, {"far": StageCost(0.1, 0.2, 5, 0, Basis.PREDICTED, "low")}, {"a": "why"}
                ),
            ),
            (EdgeFacts("camera", "net", 300.5, 0.5, "jpeg"),),
            ("a note",),
        ),
    ),
    (INVENTORY_CACHE, CachedInventory(5.0, ("fairlead 1", "boot"), Inventory(Machine("x86_64"), (GPU,)))),
    (
        RECORDS,
        RunRecord(
            *("p-1", 2, "boot", {"stage a": "0f"}, RunPhase.RUNNING, {0: 32}),
            positions={"log": {0: (40, 1)}},
            states={("count", 0): b"j[41]"},
        ),
    ),
    (KEEPER_STATUS, KeeperStatus(MpsDevice("gpu-0", "GPU-1", "/bin/mps"), ProcessRef(7, 8, "boot"), "why")),
]
NAMES = [format_.name for format_, _ in VALUES]
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "formats.md"


@pytest.mark.parametrize(("format_", "value"), VALUES, ids=NAMES)
def test_a_value_is_the_same_after_encoding_and_decoding(format_: VersionedFormat[Any], value: Any) -> None:
    text = format_.encode(value)
    assert format_.decode(text) == value
    assert format_.newer(text) is None


@pytest.mark.parametrize(("format_", "value"), VALUES, ids=NAMES)
def test_a_newer_version_is_named_and_not_guessed(format_: VersionedFormat[Any], value: Any) -> None:
    version, body = format_.envelope.unpack(format_.encode(value))
    body = {key: each for key, each in body.items() if key != "version"} if isinstance(body, dict) else body
    newer = format_.envelope.pack(version + 1, body)
    with pytest.raises(
        NewerFormatError, match=f"{format_.name} format 2: this program reads formats up to 1"
    ):
        format_.decode(newer)
    assert str(format_.newer(newer)).startswith(f"{format_.name} format 2")


@pytest.mark.parametrize("format_", [format_ for format_, _ in VALUES], ids=NAMES)
@pytest.mark.parametrize(
    "text", ["", "v", "v0 1", "vx", "[]", "{}", "null", '{"version":0}', '{"version":true}', "[" * 100_000]
)
def test_a_text_that_no_program_of_ours_wrote_is_neither_read_nor_newer(
    format_: VersionedFormat[Any], text: str
) -> None:
    with pytest.raises(ValueError, match=f"no {format_.name}"):
        format_.decode(text)
    assert format_.newer(text) is None


@pytest.mark.parametrize(("format_", "value"), VALUES[:3], ids=NAMES[:3])
def test_a_newer_program_reads_both_versions_and_writes_the_next(
    format_: VersionedFormat[Any], value: Any
) -> None:
    before = format_.encode(value)
    with adopted():
        after = format_.encode(value)
        assert before != after
        assert format_.decode(before) == format_.decode(after) == value
    assert format_.encode(value) == before


def test_the_next_formats_of_the_upgrade_are_all_that_leaders_write() -> None:
    assert {format_.name for format_, _ in CODECS} == {format_.name for format_ in formats.WRITTEN}


@pytest.mark.parametrize(
    ("text", "unreadable"),
    [
        ("", ""),
        ("in-flight/1 placement/1", ""),
        ("in-flight/1 placement/2", "placement/2"),
        ("in-flight/1 ledger/1", "ledger/1"),
        ("placement/x", "placement/x"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_lease_names_the_first_format_that_cannot_be_read(text: str, unreadable: str) -> None:
    assert formats.unreadable(text) == unreadable
    assert formats.unreadable(formats.names()) == ""


def test_the_page_shows_every_format_with_its_version_and_an_example_that_decodes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for format_, _ in VALUES:
        assert f"| `{format_.name}` | {format_.newest} |" in page, format_.name
    examples = [json.loads(line) for line in page.splitlines() if line.startswith('{"version"')]
    assert len(examples) == len(VALUES) - 2, "all but the leader epoch and the applied hash: they are no JSON"
