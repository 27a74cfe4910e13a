"""The cost of every step: work, weights and bytes, as records of the contract."""

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead.analyze import dtypes
from fairlead.analyze.graph import Constant, Fact
from fairlead.analyze.names import printable
from fairlead.analyze.operators import PARTIAL_READS, VIEWS, non_parameters
from fairlead.analyze.program import Program, Step
from fairlead.analyze.work import is_counted, macs
from fairlead.units import Bytes
from fairlead.workload import COMPUTE, Operator

_GATHER: Final = ("Gather", "GATHER")
_HOLDS_WEIGHTS: Final = (*COMPUTE, "embedding")


def operators(program: Program, groups: Sequence[int]) -> tuple[Operator, ...]:
    """Return the record of every step."""
    recorder = _CostRecorder(program)
    return tuple(recorder.record(step, number) for step, number in zip(program.steps, groups, strict=True))


class _CostRecorder:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._claimed: set[int] = set()
        """Constants that an earlier operator reads, by identity: bodies may be inlined more than once."""
        self._seen: set[str] = set()

    def record(self, step: Step, number: int) -> Operator:
        """Return the cost of one step."""
        program = self._program
        inputs = {name: program.fact(name) for name in step.inputs if name}
        outputs = [program.fact(name) for name in step.outputs]
        kind = self._kind(step)
        params, weights = self._weights(step, kind)
        read, written = _bytes(step, kind, list(inputs.values()), outputs)
        known = all(fact.known for fact in inputs.values()) and all(fact.known for fact in outputs)
        return Operator(
            printable(step.name),
            printable(step.op),
            kind,
            macs(step, program.facts) if kind in COMPUTE else 0,
            params,
            Bytes(weights),
            Bytes(read),
            Bytes(written),
            self._precision(kind, inputs, outputs),
            number,
            known and step.exact and (kind not in COMPUTE or is_counted(step.op)),
        )

    def _kind(self, step: Step) -> str:
        if step.op in _GATHER and self._program.fixed(step.first):
            fact = self._program.fact(step.first)
            if len(fact.dims or ()) == 2 and fact.dtype in dtypes.FLOATS | dtypes.NARROW:
                return "embedding"
        return step.kind

    def _precision(self, kind: str, inputs: Mapping[str, Fact], outputs: Sequence[Fact]) -> str:
        if kind in COMPUTE:
            dynamic = (fact for name, fact in inputs.items() if not self._program.fixed(name))
            first = next(dynamic, None) or next(iter(inputs.values()), None)
            facts = [first] if first is not None else []
        else:
            facts = [*outputs[:1], *inputs.values()]
        known = (fact.dtype for fact in facts if fact.dtype in dtypes.BITS)
        return dtypes.precision(next(known, dtypes.UNKNOWN))

    def _weights(self, step: Step, kind: str) -> tuple[int, int]:
        """Return the parameters and bytes of the constants that no earlier step reads."""
        params = 0
        opaque = step.attributes.get("opaque")
        size = opaque if isinstance(opaque, int) and step.op == "custom.edgetpu-custom-op" else 0
        non_parameter = non_parameters(step.op)
        for place, name in enumerate(step.inputs):
            if not self._program.fixed(name):
                continue
            for constant, counts in self._constants(name, counts=place not in non_parameter):
                size += 0 if _is_shape(constant, kind) else constant.size
                if counts and _is_parameter(constant, kind):
                    params += _count(step, place, constant)
        return params, size

    def _constants(self, name: str, *, counts: bool) -> list[tuple[Constant, bool]]:
        """Return the file's constants that a value derives from, and whether each counts as parameters."""
        constants: list[tuple[Constant, bool]] = []
        pending = [(name, counts)]
        while pending:
            current, counts = pending.pop()
            constant = self._program.constants.get(current)
            if constant is not None and id(constant) not in self._claimed:
                self._claimed.add(id(constant))
                constants.append((constant, counts))
            derived = self._program.derived.get(current)
            if derived is not None and current not in self._seen:
                self._seen.add(current)
                non_parameter = non_parameters(derived.op)
                pending += [
                    (input_, counts and place not in non_parameter)
                    for place, input_ in enumerate(derived.inputs)
                ]
        return constants


def _bytes(step: Step, kind: str, inputs: Sequence[Fact], outputs: Sequence[Fact]) -> tuple[int, int]:
    """Return the bytes read and written; views and control flow move nothing."""
    if step.op in VIEWS or kind == "control":
        return 0, 0
    written = sum(fact.size for fact in outputs)
    sizes = [fact.size for fact in inputs]
    if step.op in PARTIAL_READS and sizes:
        sizes[0] = min(sizes[0], written)
    return sum(sizes), written


def _is_shape(constant: Constant, kind: str) -> bool:
    """Say whether a constant is a shape, an axis or the like: not a weight, and of negligible size."""
    small = constant.values is not None and constant.dtype in dtypes.INTEGERS
    return small and kind not in _HOLDS_WEIGHTS


def _is_parameter(constant: Constant, kind: str) -> bool:
    if constant.dtype in dtypes.FLOATS:
        return constant.count > 1 or kind in _HOLDS_WEIGHTS
    quantised = constant.dtype in dtypes.NARROW
    return quantised or (kind in _HOLDS_WEIGHTS and constant.dtype in dtypes.INTEGERS)


def _count(step: Step, place: int, constant: Constant) -> int:
    """Return the number of parameters of a constant; some are packed several to a byte."""
    if step.op.endswith("MatMulNBits") and place == 1:
        sizes = [step.attributes.get(name) for name in ("K", "N")]
        if all(isinstance(size, int) for size in sizes):
            return int(sizes[0]) * int(sizes[1])  # type: ignore[arg-type] # checked on the line above
    return constant.count


def precision_of(records: Sequence[Operator]) -> str:
    """Return the precision of most multiply-adds."""
    work: dict[str, int] = {}
    for record in records:
        work[record.precision] = work.get(record.precision, 0) + record.macs
    return max(work, key=lambda precision: work[precision], default=dtypes.UNKNOWN)


def activations_of(program: Program) -> int:
    """Return the number of elements that convolutions and matrix products write."""
    outputs = (step.outputs[0] for step in program.steps if step.kind in COMPUTE and step.outputs)
    return sum(program.fact(name).elements for name in outputs)


def totals(records: Sequence[Operator]) -> Mapping[str, int]:
    """Return the sums over all operators."""
    return {
        "macs": sum(record.macs for record in records),
        "params": sum(record.params for record in records),
        "weight_bytes": sum(record.weight_bytes for record in records),
    }
