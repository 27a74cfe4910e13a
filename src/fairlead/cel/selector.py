"""A compiled selector."""

from dataclasses import dataclass

from fairlead.cel.device import Device
from fairlead.cel.errors import CompileError, EvaluationError


@dataclass(frozen=True)
class Selector:
    """A condition on devices that compiled."""

    text: str

    def matches(self, device: Device) -> bool:
        """Say whether a device matches; EvaluationError where the expression fails on it."""
        raise EvaluationError(f"not yet evaluated: {self.text} on {device.driver}")


def compile_selector(text: str) -> Selector:
    """Compile an expression; CompileError where Kubernetes would refuse it."""
    if not text:
        raise CompileError(1, 1, "the expression is empty")
    return Selector(text)
