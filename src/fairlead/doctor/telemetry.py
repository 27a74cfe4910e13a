"""The check of measured use: whether a Prometheus has it, how fresh it is, and which devices it covers."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from fairlead.annotations import parse_devices
from fairlead.doctor.finding import CheckResult, fail, ok, warn
from fairlead.doctor.view import ClusterView, TelemetryReading
from fairlead.keys import DEVICES, PLACEMENT
from fairlead.manifest.types.dra import newest_slices
from fairlead.offer import DRIVER
from fairlead.series import Staleness
from fairlead.units import Bytes, pluralize
from fairlead.usage.history import UseHistory
from fairlead.usage.index import DeviceIndex, KnownDevice
from fairlead.usage.prometheus import PrometheusSource
from fairlead.usage.source import UsageSettings, open_source
from fairlead.use import DeviceKey

_WHERE: Final = "see: fairlead docs prometheus; until then it goes by requests"


async def with_telemetry(view: ClusterView, settings: UsageSettings | None, now: float) -> ClusterView:
    """Return a view with what one read of the settings' Prometheus showed."""
    if settings is None:
        return view
    index = device_index(view)
    history = UseHistory(settings.window, settings.limits)
    async with open_source(settings, lambda: index) as source:
        history.on_report(await source.read(now))
        found = source.dialect if isinstance(source, PrometheusSource) else None
        count = source.count.unknown_devices if isinstance(source, PrometheusSource) else 0
        example = source.count.example if isinstance(source, PrometheusSource) else ""
    reading = TelemetryReading(
        settings.url, history.status(now), found.name if found else "", len(index), count, example
    )
    return replace(view, telemetry=reading)


def telemetry(view: ClusterView) -> list[CheckResult]:
    """Report whether measured use is there, fresh and complete."""
    reading = view.telemetry
    if reading is None:
        return [ok("not checked: --prometheus URL names the Prometheus that the scheduler reads")]
    status = reading.status
    if status.staleness is not Staleness.FRESH:
        return [fail(f"no measured use to place by: {status.reason}", _WHERE)]
    results = list(_gaps(reading))
    measured = pluralize(status.devices_fresh, "accelerator")
    text = f"{reading.url} has the use of {measured} and {pluralize(status.pods_fresh, 'pod')}"
    return results or [ok(f"{text}, by the names of {reading.dialect}")]


def _gaps(reading: TelemetryReading) -> Iterator[CheckResult]:
    """Yield what a fresh reading lacks."""
    status = reading.status
    if status.reason:
        yield warn(f"{reading.url}: {status.reason}", "correct the exporter or its scrape job")
    if status.devices_fresh < reading.devices:
        missing = pluralize(reading.devices - status.devices_fresh, "accelerator")
        text = f"{reading.url} has no use of {missing} of {reading.devices}; their pods count by requests"
        yield warn(text, "scrape the agent, or dcgm-exporter, of every node with accelerators")
    if reading.unknown:
        text = f"{pluralize(reading.unknown, 'series', 'series')} of no known accelerator ({reading.example})"
        yield warn(text, "let the scrape job set `instance` or `node` to the name of the node")
    if not status.pods_fresh:
        text = f"{reading.url} has the use of no pod: only whole accelerators are measured"
        yield warn(
            text, "turn on attribution in the agents (attribution.enabled), and scrape with honor_labels"
        )


def device_index(view: ClusterView) -> DeviceIndex:
    """Return the accelerators of a cluster, the pods that hold them, and the names of nodes."""
    sizes = {device.key: device.memory for device in _listed(view)}
    known = {device.key: device for device in (*_listed(view), *_sliced(view, sizes))}
    claimed = {
        uid
        for claim in view.claims
        if any(result.driver == DRIVER for result in claim.results)
        for uid in claim.users
    }
    pods, hosts = dict[tuple[str, str], str](), dict[str, str]()
    for pod in view.pods:
        if not pod.spec.node_name or pod.ended:
            continue
        meta, node = pod.metadata, pod.spec.node_name
        hosts |= {address: node for address in (pod.status.pod_ip, pod.status.host_ip) if address}
        if meta.uid in claimed or PLACEMENT in meta.annotations:
            pods[meta.namespace, meta.name] = meta.uid
    return DeviceIndex(known.values(), hosts, pods)


def _listed(view: ClusterView) -> Iterator[KnownDevice]:
    for node in view.nodes:
        for each in parse_devices(node.metadata.annotations.get(DEVICES, "")) or ():
            key = DeviceKey(node.metadata.name, each.id)
            yield KnownDevice(key, vendor=each.vendor, memory=Bytes(each.mebibytes << 20))


def _sliced(view: ClusterView, sizes: Mapping[DeviceKey, Bytes]) -> Iterator[KnownDevice]:
    """Yield the devices of slices; the memory there is what claims can get, not the size."""
    for slice_ in newest_slices(view.own_slices):
        for device in slice_.spec.devices:
            texts = {name: str(value.get("string", "")) for name, value in device.attributes.items()}
            key = DeviceKey(slice_.node, device.name)
            yield KnownDevice(
                key,
                uuid=texts.get("uuid", ""),
                pci=texts.get("resource.kubernetes.io/pciBusID", ""),
                vendor=texts.get("vendor", ""),
                memory=sizes.get(key, Bytes(0)),
            )
