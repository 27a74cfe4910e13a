"""The check that the sources of a node agree: our agent's list, our slices and our labels.

One source decides which accelerators a node has (see `fairlead.manifest.node.state`). Where a second source
differs, an accelerator gets no work, or is offered though it is gone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fairlead.annotations import AnnotatedAccelerator, labelled_models, parse_allocated, parse_devices
from fairlead.doctor.finding import CheckResult, count, ok, some, warn
from fairlead.doctor.view import ClusterView
from fairlead.keys import ALLOCATED, DEVICES
from fairlead.manifest.types.dra import Device, Slice, newest_slices
from fairlead.manifest.types.kubernetes import Node

_TODO: Final = (
    "restart that node's agent: it writes list, slices and labels from one scan; "
    "if they differ again, see `kubectl logs` of the agent and `fairlead detect` on the node"
)


def sources(view: ClusterView) -> list[CheckResult]:
    """Report the nodes on which two sources differ; of two views, only the differences in both."""
    differences = dict.fromkeys(_differences(view))
    if view.earlier is not None:
        before = set(_differences(view.earlier))
        differences = {text: None for text in differences if text in before}
    return [warn(text, _TODO) for text in differences] or [
        ok(f"the sources of {count(view.nodes, 'node')} agree on the accelerators")
    ]


def _differences(view: ClusterView) -> Iterator[str]:
    slices: dict[str, list[Slice]] = {}
    for slice_ in view.own_slices:
        slices.setdefault(slice_.node, []).append(slice_)
    for node in view.nodes:
        name = node.metadata.name
        devices = [device for slice_ in newest_slices(slices.get(name, ())) for device in slice_.spec.devices]
        annotation = node.metadata.annotations.get(DEVICES, "")
        listed = parse_devices(annotation)
        if annotation and listed is None:
            yield f"{name}: the annotation {DEVICES} cannot be read; the slices decide, else the labels"
        if listed:
            yield from (f"{name}: {text}; the list decides" for text in _beside_list(node, listed, devices))
        elif devices:
            yield from (f"{name}: {text}; the slices decide" for text in _beside_slices(node, devices))


def _beside_list(
    node: Node, listed: Sequence[AnnotatedAccelerator], devices: Sequence[Device]
) -> Iterator[str]:
    """Yield where slices or labels differ from an agent's list; a slice may leave devices out."""
    extra = {device.name for device in devices} - {accelerator.id for accelerator in listed}
    if extra:
        yield f"the slices name {some(extra)}, which {DEVICES} does not list"
    labelled = {model.model: model.count for model in labelled_models(node.metadata.labels)}
    if labelled:  # an agent may publish no labels
        counts = Counter(accelerator.model for accelerator in listed)
        yield from _unequal(counts, labelled, f"{DEVICES} lists")


def _beside_slices(node: Node, devices: Sequence[Device]) -> Iterator[str]:
    """Yield where labels differ from slices, which leave out what containers hold."""
    named = Counter(str(device.attributes.get("model", {}).get("string", "")) for device in devices)
    held = (parse_allocated(node.metadata.annotations.get(ALLOCATED, "")) or {}).keys()
    left_out = len(held - {device.name for device in devices})
    labelled = labelled_models(node.metadata.labels)
    if sum(max(0, model.usable - named[model.model]) for model in labelled) > left_out:
        yield from _unequal(named, {model.model: max(model.usable, named[model.model]) for model in labelled})
    yield from _unequal(named, {model.model: min(model.count, named[model.model]) for model in labelled})


def _unequal(
    named: Mapping[str, int], labelled: Mapping[str, int], source: str = "the slices name"
) -> Iterator[str]:
    for model, number in sorted(labelled.items()):
        if named.get(model, 0) != number:
            yield f"{source} {named.get(model, 0)} {model}, and the labels count {number}"
