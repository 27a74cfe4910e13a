"""Device selectors: Kubernetes' CEL for Dynamic Resource Allocation, compiled, type-checked and bounded.

`compile_selector` raises a `CompileError`; `CompiledSelector.matches` returns whether a device matches,
or raises an `EvaluationError`, which is never a match.
"""

from fairlead.cel.device import CelDevice
from fairlead.cel.errors import CompileError, EvaluationError
from fairlead.cel.functions.semver import SemanticVersion
from fairlead.cel.selector import CompiledSelector, compile_selector
from fairlead.units import Quantity

__all__ = [
    "CelDevice",
    "CompileError",
    "CompiledSelector",
    "EvaluationError",
    "Quantity",
    "SemanticVersion",
    "compile_selector",
]
