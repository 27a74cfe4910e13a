"""The errors of a selector: it does not compile, or it fails on a device."""


class CompileError(Exception):
    """An expression that does not compile, with the place of its first fault."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line = line
        """Counted from 1."""
        self.column = column
        """Counted from 1, in characters."""
        self.message = message


class EvaluationError(Exception):
    """An expression that fails on a device, in the words of cel-go: `no such key: model`."""


class CostError(Exception):
    """An evaluation beyond its cost limit: no part of the expression can catch it."""
