"""What containers and claims hold of accelerators, and what pods were measured to use of them."""

from collections.abc import Iterator, Sequence

from fairlead.inventory import Accelerator, Inventory
from fairlead.metrics.exposition import MetricFamily, Row, gauge, id_labels
from fairlead.metrics.snapshot import PublishStatus
from fairlead.offer import Form, Holding
from fairlead.use import AttributedUse, ContainerUse


def holding_metrics(inventory: Inventory, publishing: PublishStatus) -> Iterator[MetricFamily]:
    """Yield the holdings of pods and claims; a whole accelerator counts with all of its memory."""
    accs = {acc.id: acc for acc in inventory.accelerators}
    held = [
        (accs[holding.accelerator], holding) for holding in publishing.holdings if holding.accelerator in accs
    ]
    sums: dict[tuple[str, ...], float] = {}
    counts: dict[tuple[str, ...], float] = {}
    for acc, holding in held:
        key = (*id_labels(acc), holding.form.value)
        sums[key] = sums.get(key, 0.0) + _amount(acc, holding)
        counts[key] = counts.get(key, 0.0) + 1
    labels: Sequence[str] = ("id", "model", "form")
    text = "Memory of the accelerator that containers and claims hold; all of it if it is held whole."
    yield from gauge("fairlead_accelerator_allocated_bytes", text, labels, sums.items())
    text = "Containers and claims that hold the accelerator or a part of it."
    yield from gauge("fairlead_accelerator_allocations", text, labels, counts.items())
    rows = (
        (_holder_labels(acc, holding), _amount(acc, holding))
        for acc, holding in held
        if holding.form is not Form.CLAIM
    )
    text = "Memory of an accelerator that a container holds."
    labels = ("namespace", "pod", "container", "id", "model", "form")
    yield from gauge("fairlead_pod_accelerator_bytes", text, labels, rows)


def _holder_labels(acc: Accelerator, holding: Holding) -> tuple[str, ...]:
    holder = holding.holder
    return holder.namespace, holder.name, holder.container, *id_labels(acc), holding.form.value


def _amount(acc: Accelerator, holding: Holding) -> float:
    return float(holding.mebibytes << 20) if holding.mebibytes else float(acc.memory or 0)


def use_metrics(inventory: Inventory, use: AttributedUse) -> Iterator[MetricFamily]:
    """Yield the measured use of each container, and of processes outside pods."""
    accs = {acc.id: acc for acc in inventory.accelerators}
    mine = [(accs[each.accelerator], each) for each in use.containers if each.accelerator in accs]
    text = "Whether the use of accelerators by pod was read."
    yield from gauge("fairlead_attribution_up", text, (), [((), float(use.up))])
    labels = ("namespace", "pod", "container", "pod_uid", "id", "model")
    rows = [(_use_labels(acc, each), each.memory) for acc, each in mine]
    text = "Memory of an accelerator that a container uses."
    yield from gauge("fairlead_pod_accelerator_memory_used_bytes", text, labels, _measured(rows))
    rows = [(_use_labels(acc, each), each.peak) for acc, each in mine]
    text = "The most memory of an accelerator that a container has used while its pod lives."
    yield from gauge("fairlead_pod_accelerator_memory_peak_bytes", text, labels, _measured(rows))
    shares = [(_use_labels(acc, each), each.busy) for acc, each in mine]
    text = "Share of time in which a container kept an accelerator busy."
    yield from gauge("fairlead_pod_accelerator_busy_ratio", text, labels, _measured(shares))
    foreign = [(id_labels(accs[name]), float(size)) for name, size in use.foreign.items() if name in accs]
    text = "Memory of an accelerator that processes outside pods use."
    yield from gauge("fairlead_accelerator_foreign_bytes", text, ("id", "model"), foreign)


def _measured(rows: Sequence[tuple[tuple[str, ...], float | None]]) -> Iterator[Row]:
    """Yield the rows that have a value: what is not measured is absent, and never 0."""
    return ((labels, float(value)) for labels, value in rows if value is not None)


def _use_labels(acc: Accelerator, each: ContainerUse) -> tuple[str, ...]:
    return each.namespace, each.pod, each.container, each.pod_uid, *id_labels(acc)
