"""Put back the norms that an exporter folded into convolutions: training keeps their inputs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from fairlead.dataflow import Dataflow, FlowStep

_FOLDED_NAMES: Final = ("onnx::Conv_", "onnx::ConvTranspose_")
"""PyTorch's exporter names a weight so where it is computed from several others."""
_NORM_OUTPUTS: Final = ("getitem", "batch_norm", "_native_batch_norm")
"""PyTorch's newer exporter leaves the name of the norm's result on the convolution."""
_PARAMETERS: Final = 2
"""Parameters of a norm for each channel; one of them is the bias that folding leaves."""


def with_norms(flow: Dataflow) -> tuple[Dataflow, int]:
    """Return a dataflow with a norm after every convolution that has one folded in, and their number.

    Activations that TFLite's operators apply themselves become operators of their own, too.
    """
    is_folded = _evidence(flow)
    steps: list[FlowStep] = []
    values, count = dict(flow.values), 0
    for step in flow.steps:
        if not step.outputs:
            steps.append(step)
            continue
        folded = step.kind in ("conv", "depthwise") and is_folded(step)
        count += folded
        after = [*([_norm(step)] if folded else []), *([_activation(step)] if step.activation else [])]
        chain = _chained(step, after)
        values |= {name: values[step.outputs[0]] for each in chain[:-1] for name in each.outputs[:1]}
        steps += chain
    return replace(flow, steps=tuple(steps), values=values), count


def _chained(step: FlowStep, after: list[FlowStep]) -> list[FlowStep]:
    """Return a step and those that follow it one after the other; the last has its output."""
    [out, *others] = step.outputs
    names = [f"{out}\0{place}" for place in range(len(after))] + [out]
    chain = [replace(step, outputs=(names[0], *others))]
    chain += [
        replace(each, inputs=(names[place],), outputs=(names[place + 1],)) for place, each in enumerate(after)
    ]
    return chain


def _norm(step: FlowStep) -> FlowStep:
    weights = (_PARAMETERS - (1 if step.has_bias else 0)) * step.norm_channels
    return FlowStep("BatchNormalization", "norm", (), (), weights=weights)


def _activation(step: FlowStep) -> FlowStep:
    return FlowStep(step.activation, "activation", (), ())


def _evidence(flow: Dataflow) -> Callable[[FlowStep], bool]:
    """Return a function that says whether a norm was folded into a convolution."""
    if any(step.op == "BatchNormalization" for step in flow.steps):
        norms = {name for step in flow.steps if step.kind == "norm" for name in step.inputs}
        return lambda step: _named(step) and not norms.intersection(step.outputs)
    if any(step.kind == "norm" for step in flow.steps):
        return _named
    if any(_named(step) for step in flow.steps):
        return _named
    deep = _is_modern(flow)
    return lambda step: deep and not _ends(flow, step)


def _named(step: FlowStep) -> bool:
    if step.weight_name.startswith(_FOLDED_NAMES):
        return True
    return bool(step.outputs) and step.outputs[0].startswith(_NORM_OUTPUTS)


def _is_modern(flow: Dataflow) -> bool:
    """Say whether a network is of a kind that is never trained without norms: depthwise or residual."""
    if any(step.kind == "depthwise" for step in flow.steps):
        return True
    makers = {name: step for step in flow.steps for name in step.outputs}
    sums = [step for step in flow.steps if step.op in ("Add", "ADD") and len(step.inputs) > 1]
    return any(makers[name].kind == "conv" for step in sums for name in step.inputs if name in makers)


def _ends(flow: Dataflow, step: FlowStep) -> bool:
    """Say whether a convolution ends the network, or works on pooled values: neither has a norm."""
    readers = Counter(name for other in flow.steps for name in other.inputs)
    value = flow.values[step.outputs[0]]
    source = flow.values[step.inputs[0]] if step.inputs else value
    return not readers[step.outputs[0]] or source.points <= 1
