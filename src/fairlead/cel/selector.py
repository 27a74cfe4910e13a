"""A compiled selector."""

from functools import lru_cache
from typing import Final

from fairlead.cel.check.checker import Checker
from fairlead.cel.check.validate import faults
from fairlead.cel.device import CelDevice
from fairlead.cel.errors import CompileError, CostError, EvaluationError
from fairlead.cel.evaluate.activation import Activation, Step
from fairlead.cel.evaluate.plan import Planner
from fairlead.cel.evaluate.values import STEPS, kind_name
from fairlead.cel.functions.all import TABLE
from fairlead.cel.syntax.lexer import Source
from fairlead.cel.syntax.parser import parse

MAX_LENGTH: Final = 10 * 1024
"""The most bytes of an expression: `CELSelectorExpressionMaxLength` of Kubernetes."""
_CACHE_SIZE: Final = 1024
"""The number of compiled selectors in the cache, the most recently used ones."""
_TOO_DEEP: Final = "expression recursion limit exceeded"
_TOO_COSTLY: Final = "operation cancelled: actual cost limit exceeded"


class CompiledSelector:
    """A condition on devices that compiled."""

    def __init__(self, text: str, step: Step, variables: int) -> None:
        self.text = text
        self._step = step
        self._variables = variables

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"

    def matches(self, device: CelDevice) -> bool:
        """Return whether a device matches; EvaluationError where the expression fails on it."""
        if device.fault:
            raise EvaluationError(device.fault)
        STEPS.left = STEPS.most
        try:
            result = self._step(Activation(device.value, self._variables))
        except CostError:
            raise EvaluationError(_TOO_COSTLY) from None
        except RecursionError:
            raise EvaluationError(_TOO_DEEP) from None
        if type(result) is not bool:
            raise EvaluationError(f"CEL result of type {kind_name(result)} could not be converted to bool")
        return result


@lru_cache(maxsize=_CACHE_SIZE)
def compile_selector(text: str) -> CompiledSelector:
    """Compile an expression; CompileError where Kubernetes would reject it."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_LENGTH:
        raise CompileError(1, 1, f"the expression is longer than {MAX_LENGTH} bytes")
    source = Source(text)
    try:
        return _compiled(source)
    except RecursionError:
        raise CompileError(1, 1, _TOO_DEEP) from None


def _compiled(source: Source) -> CompiledSelector:
    tree = parse(source)
    checker = Checker(source, TABLE)
    checker.check(tree)
    for fault in sorted(checker.faults, key=lambda fault_: (fault_.line, fault_.column)):
        raise fault
    for fault in faults(source, checker, tree):
        raise fault
    kind = checker.type_of(tree)
    if kind.kind not in ("bool", "dyn"):
        raise CompileError(1, 1, f"must evaluate to bool or the unknown type, not {kind}")
    planner = Planner(checker)
    step = planner.plan(tree)
    return CompiledSelector(source.text, step, planner.variables)
