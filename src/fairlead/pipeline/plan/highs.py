"""The door to HiGHS, the MILP solver: a linear program in, the values of its columns out."""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fairlead.errors import MissingPartError, PipelineFailedError

EXTRA: Final = "pipeline-plan"
_TOLERANCE: Final = 1e-9
"""By which rows may be missed. Times are scaled to about 1, so this is the planner's own tolerance."""


@dataclass(slots=True)
class LinearProgram:
    """Columns with bounds, and rows between two values; it grows by column and row."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def column(self, upper: float = math.inf, *, integer: bool = False) -> int:
        """Add a column from 0 to `upper`, and return its number."""
        self.lower.append(0.0)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.lower) - 1

    def row(self, terms: dict[int, float], low: float = -math.inf, high: float = math.inf) -> None:
        """Add a row: the terms add up to a value between two others."""
        self.index.extend(terms)
        self.value.extend(terms.values())
        self.starts.append(len(self.index))
        self.row_lower.append(low)
        self.row_upper.append(high)


@dataclass(frozen=True, slots=True)
class LinearSolution:
    """The values of the columns, and how far the objective may be above the least, as a part of it."""

    values: list[float]
    gap: float


def minimize(
    program: LinearProgram, column: int, gap: float, start: dict[int, float], most_s: float
) -> LinearSolution | None:
    """Return the solution with the smallest value of a column; None where there is none.

    The search ends at the gap or after `most_s` seconds; `start` has the values of some integer columns.
    """
    highspy = _highspy()
    solver = highspy.Highs()
    # One thread: the same problem has the same answer.
    settings = {
        "output_flag": False,
        "threads": 1,
        "time_limit": most_s,
        "mip_rel_gap": gap,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": _TOLERANCE,
        "primal_feasibility_tolerance": _TOLERANCE,
        "dual_feasibility_tolerance": _TOLERANCE,
    }
    for name, value in settings.items():
        solver.setOptionValue(name, value)
    solver.passModel(_model(highspy, program, column))
    if start:
        solver.setSolution(len(start), np.array([*start], np.int32), np.array([*start.values()]))
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    statuses = highspy.HighsModelStatus
    if status in (statuses.kInfeasible, statuses.kUnboundedOrInfeasible):
        return None
    if status not in (statuses.kOptimal, statuses.kTimeLimit) or not math.isfinite(info.mip_gap):
        raise PipelineFailedError(
            f"HiGHS found no plan within {most_s:g} s: {solver.modelStatusToString(status)}",
            "write a smaller problem, or use --solver dp",
        )
    return LinearSolution(list(solver.getSolution().col_value), max(0.0, float(info.mip_gap)))


def _highspy() -> Any:
    try:
        import highspy  # noqa: PLC0415 - chains need no MILP solver
    except ImportError:
        raise MissingPartError(
            "the MILP needs HiGHS, which is not installed", f"pip install 'fairlead[{EXTRA}]'"
        ) from None
    return highspy


def _model(highspy: Any, program: LinearProgram, column: int) -> Any:
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(program.lower), len(program.row_lower)
    model.col_cost_ = np.array([float(each == column) for each in range(len(program.lower))])
    model.col_lower_, model.col_upper_ = np.array(program.lower), np.array(program.upper)
    model.row_lower_, model.row_upper_ = np.array(program.row_lower), np.array(program.row_upper)
    kinds = highspy.HighsVarType
    model.integrality_ = [kinds.kInteger if each else kinds.kContinuous for each in program.integer]
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_, matrix.index_ = np.array(program.starts, np.int32), np.array(program.index, np.int32)
    matrix.value_ = np.array(program.value, float)
    return model
