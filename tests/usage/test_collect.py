"""Labels of each exporter to our keys, values checked and summed, doubled series dropped."""

from math import nan

import msgspec
import pytest

from fairlead.usage.answer import SeriesLabels
from fairlead.usage.collect import ReportCollector
from fairlead.usage.dialects import DIALECTS, DialectMetric
from fairlead.usage.index import DeviceIndex, KnownDevice, pci_id
from fairlead.use import DeviceKey, PodDeviceKey, UseFault, UseReport, UseSample
from tests.usage.worlds import (
    FOREIGN,
    GIB,
    GPU,
    INDEX,
    MIB,
    NEW_BUSY,
    NEW_MEMORY,
    NOW,
    OLD_BUSY,
    OLD_MEMORY,
    OURS_BUSY,
    OURS_MEMORY,
    POD_BUSY,
    POD_MEMORY,
    SECOND,
    UUID,
    WEB,
    sample,
)

METRICS = {metric.name: metric for dialect in DIALECTS for metric in dialect.metrics}
Rows = list[tuple[str, dict[str, str], float]]


def metric(name: str) -> DialectMetric:
    return METRICS[name]


def labels(**pairs: str) -> SeriesLabels:
    return msgspec.convert(pairs, SeriesLabels)


def collect(rows: Rows, index: DeviceIndex = INDEX) -> UseReport:
    collector = ReportCollector(index)
    for name, pairs, value in rows:
        collector.add(metric(name), labels(**pairs), NOW, value)
    return collector.report(NOW, "prometheus")


ID = {"id": GPU.device}
OURS = {"namespace": "shop", "pod": "web", "container": "a", **ID}
DCGM = {"UUID": UUID, "pci_bus_id": "00000000:3B:00.0", "gpu": "0"}
EXPORTED = {"exported_namespace": "shop", "exported_pod": "web", "namespace": "gpu-operator", "pod": "dcgm-x"}
DEVICES: dict[str, tuple[Rows, UseSample]] = {
    "ours, by the node label": (
        [(OURS_MEMORY, {**ID, "node": "box"}, GIB), (OURS_BUSY, {**ID, "node": "box"}, 0.25)],
        sample(GIB, 0.25),
    ),
    "ours, by the instance": ([(OURS_MEMORY, {**ID, "instance": "box"}, GIB)], sample(GIB)),
    "ours, by an address": ([(OURS_MEMORY, {**ID, "instance": "10.0.0.7:19809"}, 7)], sample(7)),
    "dcgm-exporter, by UUID alone": (
        [(OLD_MEMORY, {"UUID": UUID, "Hostname": "dcgm-exporter-x"}, 100), (OLD_BUSY, {"UUID": UUID}, 50)],
        sample(100 * MIB, 0.5),
    ),
    "dcgm-exporter, by the PCI address": (
        [(OLD_MEMORY, {"pci_bus_id": "00000000:3B:00.0", "Hostname": "box"}, 100)],
        sample(100 * MIB),
    ),
    "dcgm-exporter, by number": (
        [(OLD_MEMORY, {"gpu": "0", "kubernetes_node": "box"}, 3)],
        sample(3 * MIB),
    ),
    "dcgm-exporter since 4.9": (
        [(NEW_MEMORY, {"UUID": UUID, "hostname": "box"}, 100), (NEW_BUSY, {"UUID": UUID}, 0.5)],
        sample(100, 0.5),
    ),
    "MIG instances add up": (
        [(OLD_MEMORY, {"UUID": UUID, "GPU_I_ID": number}, 10) for number in ("1", "2")],
        sample(20 * MIB),
    ),
    "equal series of two holders": (
        [(OLD_MEMORY, {**DCGM, "exported_pod": pod}, 10) for pod in ("web", "other")],
        sample(10 * MIB),
    ),
}


@pytest.mark.parametrize("case", DEVICES)
def test_a_series_is_about_a_known_device(case: str) -> None:
    rows, expected = DEVICES[case]
    report = collect(rows)
    assert (report.devices, report.faults) == ({GPU: expected}, {})


def test_series_of_mig_instances_are_those_of_their_own_devices() -> None:
    ids = [f"{GPU.device}-mig-1g-18gb-{number}-0" for number in (9, 10)]
    known = [KnownDevice(DeviceKey("box", name), f"MIG-{name}", "0000:3b:00.0", "NVIDIA") for name in ids]
    index = DeviceIndex([*known, KnownDevice(SECOND, "GPU-2", vendor="NVIDIA")])
    where = {"pci_bus_id": "00000000:3B:00.0", "Hostname": "box", "UUID": UUID}
    rows: Rows = [
        (OLD_MEMORY, {**where, "GPU_I_ID": "9", "GPU_I_PROFILE": "1g.18gb"}, 1),
        (OLD_MEMORY, {"gpu": "0", "Hostname": "box", "GPU_I_ID": "10"}, 2),
        (OLD_MEMORY, where, 3),  # the whole GPU, which is no device any more
        (OLD_MEMORY, {**where, "GPU_I_ID": "11"}, 4),  # an instance that is not known yet
        (OLD_MEMORY, {"gpu": "1", "Hostname": "box"}, 5),
    ]
    report = collect(rows, index)
    assert report.devices == {
        DeviceKey("box", ids[0]): sample(1 * MIB),
        DeviceKey("box", ids[1]): sample(2 * MIB),
        SECOND: sample(5 * MIB),
    }


def test_the_second_gpu_has_the_second_address() -> None:
    report = collect([(OLD_MEMORY, {"gpu": "1", "Hostname": "box"}, 1)])
    assert list(report.devices) == [SECOND]


@pytest.mark.parametrize(
    "pairs", [{**ID, "node": "elsewhere"}, {"id": "pci-0000-99-00-0", "node": "box"}, ID, {}]
)
def test_a_series_of_an_unknown_device_is_counted(pairs: dict[str, str]) -> None:
    collector = ReportCollector(INDEX)
    collector.add(metric(OURS_MEMORY), labels(**pairs), NOW, 1)
    assert collector.report(NOW, "x").devices == {}
    assert (collector.count.series, collector.count.unknown_devices) == (1, 1)
    assert "node" in collector.count.example


def test_an_open_index_keeps_the_names_of_the_series() -> None:
    report = collect([(OURS_MEMORY, {**ID, "node": "elsewhere"}, 1)], DeviceIndex(known_only=False))
    assert list(report.devices) == [DeviceKey("elsewhere", GPU.device)]


PODS: dict[str, tuple[Rows, dict[PodDeviceKey, UseSample]]] = {
    "containers add up, busy up to all of the time": (
        [
            (name, {**OURS, "node": "box", "container": container}, value)
            for name, value in ((POD_MEMORY, 10.0), (POD_BUSY, 0.75))
            for container in ("a", "b")
        ],
        {WEB: sample(20, 1.0)},
    ),
    "a uid needs no index": (
        [(POD_MEMORY, {**OURS, "node": "box", "pod": "?", "pod_uid": "u"}, 1)],
        {PodDeviceKey("u", *GPU): sample(1)},
    ),
    "renamed labels go before the exporter's own": (
        [(POD_MEMORY, {**ID, **EXPORTED, "instance": "box"}, 5)],
        {WEB: sample(5)},
    ),
    "a uid that is none": ([(POD_MEMORY, {**OURS, "node": "box", "pod_uid": "u" * 65}, 1)], {}),
    "an unknown pod": ([(POD_MEMORY, {**OURS, "node": "box", "pod": "gone"}, 1)], {}),
    "dcgm-exporter, one holder": (
        [(OLD_MEMORY, {**DCGM, **EXPORTED}, 5), (OLD_BUSY, {**DCGM, **EXPORTED}, 10)],
        {WEB: sample(5 * MIB, 0.1)},
    ),
    "dcgm-exporter, the exporter's own pod": (
        [(OLD_MEMORY, {**DCGM, "namespace": "gpu-operator", "pod": "dcgm-x"}, 5)],
        {},
    ),
    "dcgm-exporter, a shared device": (
        [(OLD_MEMORY, {**DCGM, **EXPORTED, "exported_pod": pod}, 5) for pod in ("web", "other")],
        {},
    ),
}


@pytest.mark.parametrize("case", PODS)
def test_use_is_given_to_the_pods_that_it_can_be_given_to(case: str) -> None:
    rows, samples = PODS[case]
    report = collect(rows)
    assert (report.pods, report.faults) == (samples, {})


BOX = {**ID, "node": "box"}


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        (OURS_MEMORY, nan, UseFault.NOT_A_NUMBER),
        (OURS_MEMORY, -1, UseFault.OUT_OF_RANGE),
        (OURS_MEMORY, 18 * GIB, UseFault.OUT_OF_RANGE),
        (OURS_BUSY, 1.5, UseFault.OUT_OF_RANGE),
        (FOREIGN, nan, UseFault.NOT_A_NUMBER),
    ],
)
def test_a_value_that_cannot_be_is_missing(name: str, value: float, fault: UseFault) -> None:
    report = collect([(name, BOX, value)])
    assert (report.devices, report.foreign, report.faults) == ({}, {}, {fault: 1})


def test_a_driver_may_show_a_little_more_than_the_listed_memory() -> None:
    assert collect([(OURS_MEMORY, BOX, 17 * GIB)]).devices[GPU].memory == 17 * GIB


def test_two_values_for_one_device_drop_both() -> None:
    report = collect([(OURS_MEMORY, BOX, 1), (OURS_MEMORY, BOX, 2), (OURS_BUSY, BOX, 0.5)])
    assert report.faults == {UseFault.DUPLICATE: 1}
    assert report.devices == {GPU: sample(None, 0.5)}


def test_a_series_that_ended_before_another_began_was_replaced_by_it() -> None:
    collector = ReportCollector(INDEX)
    collector.add(metric(OURS_MEMORY), labels(**BOX), NOW - 20, 1, first=NOW - 50)
    collector.add(metric(OURS_MEMORY), labels(**BOX), NOW, 2, first=NOW - 10)
    report = collector.report(NOW, "x")
    assert (report.devices[GPU], report.faults) == (sample(2), {})


def test_a_value_of_an_earlier_scrape_does_not_get_the_time_of_a_later_one() -> None:
    collector = ReportCollector(INDEX)
    collector.add(metric(OURS_MEMORY), labels(**BOX), NOW - 40, 1)
    collector.add(metric(OURS_BUSY), labels(**BOX), NOW, 0.5)
    assert collector.report(NOW, "x").devices == {GPU: sample(None, 0.5)}


def test_containers_of_two_scrapes_are_not_added_up() -> None:
    collector = ReportCollector(INDEX)
    for container, at in (("a", NOW), ("b", NOW - 0.5), ("c", NOW - 2)):
        pairs = {**BOX, "namespace": "shop", "pod": "web", "container": container}
        collector.add(metric(POD_MEMORY), labels(**pairs), at, 1)
    assert collector.report(NOW, "x").pods == {WEB: sample(2)}


def test_foreign_memory_is_reported() -> None:
    assert collect([(FOREIGN, BOX, 5)]).foreign == {GPU: 5}


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("00000000:3B:00.0", "pci-0000-3b-00-0"),
        ("0000:3b:00.0", "pci-0000-3b-00-0"),
        ("3b:00.0", "pci-0000-3b-00-0"),
        ("pci:0000:3b:00.0", "pci-0000-3b-00-0"),
        ("pci-0000-3b-00-0", "pci-0000-3b-00-0"),
        ("usb:1-2", ""),
        ("zz:00.0", ""),
        ("", ""),
    ],
)
def test_a_pci_address_has_many_spellings(text: str, identity: str) -> None:
    assert pci_id(text) == identity
