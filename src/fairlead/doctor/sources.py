"""The check that the sources of a node agree: our agent's list, our slices and our labels.

One source decides which accelerators a node has (see `fairlead.manifest.node.state`). Where a second one says
otherwise, an accelerator gets no work, or is offered though it is gone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fairlead.annotations import AnnotatedAccelerator, models, parse_allocated, parse_devices
from fairlead.doctor.finding import CheckResult, count, ok, some, warn
from fairlead.doctor.view import ClusterView
from fairlead.keys import ALLOCATED, DEVICES
from fairlead.manifest.types.dra import Device, Slice, newest_slices
from fairlead.manifest.types.kubernetes import Node

_TODO: Final = (
    "restart that node's agent: it writes list, slices and labels from one scan; "
    "if they differ again, see `kubectl logs` of the agent and `fairlead detect` on the node"
)


def sources(sight: ClusterView) -> list[CheckResult]:
    """Say on which nodes two sources differ; of two looks, only what is the same in both."""
    found = dict.fromkeys(_differences(sight))
    if sight.earlier is not None:
        before = set(_differences(sight.earlier))
        found = {text: None for text in found if text in before}
    return [warn(text, _TODO) for text in found] or [
        ok(f"the sources of {count(sight.nodes, 'node')} agree on the accelerators")
    ]


def _differences(sight: ClusterView) -> Iterator[str]:
    slices: dict[str, list[Slice]] = {}
    for each in sight.own_slices:
        slices.setdefault(each.node, []).append(each)
    for node in sight.nodes:
        name = node.metadata.name
        devices = [device for each in newest_slices(slices.get(name, ())) for device in each.spec.devices]
        note = node.metadata.annotations.get(DEVICES, "")
        listed = parse_devices(note)
        if note and listed is None:
            yield f"{name}: the annotation {DEVICES} cannot be read; the slices decide, else the labels"
        if listed:
            yield from (f"{name}: {text}; the list decides" for text in _beside_list(node, listed, devices))
        elif devices:
            yield from (f"{name}: {text}; the slices decide" for text in _beside_slices(node, devices))


def _beside_list(
    node: Node, listed: Sequence[AnnotatedAccelerator], devices: Sequence[Device]
) -> Iterator[str]:
    """Yield where slices or labels say otherwise than an agent's list; a slice may leave devices out."""
    extra = {device.name for device in devices} - {each.id for each in listed}
    if extra:
        yield f"the slices name {some(extra)}, which {DEVICES} does not list"
    labelled = {each.model: each.count for each in models(node.metadata.labels)}
    if labelled:  # an agent need not publish any
        yield from _unequal(Counter(each.model for each in listed), labelled, f"{DEVICES} lists")


def _beside_slices(node: Node, devices: Sequence[Device]) -> Iterator[str]:
    """Yield where labels say otherwise than slices, which leave out what containers hold."""
    named = Counter(str(device.attributes.get("model", {}).get("string", "")) for device in devices)
    held = (parse_allocated(node.metadata.annotations.get(ALLOCATED, "")) or {}).keys()
    unseen = len(held - {device.name for device in devices})
    labelled = models(node.metadata.labels)
    if sum(max(0, each.usable - named[each.model]) for each in labelled) > unseen:
        yield from _unequal(named, {each.model: max(each.usable, named[each.model]) for each in labelled})
    yield from _unequal(named, {each.model: min(each.count, named[each.model]) for each in labelled})


def _unequal(
    named: Mapping[str, int], labelled: Mapping[str, int], source: str = "the slices name"
) -> Iterator[str]:
    for model, number in sorted(labelled.items()):
        if named.get(model, 0) != number:
            yield f"{source} {named.get(model, 0)} {model}, and the labels count {number}"
