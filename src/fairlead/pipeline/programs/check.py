"""What is checked of an `exec` stage before a run: its options, its program, and the ports of its hello."""

from typing import Any, Final

from fairlead.pipeline.endpoints.options import OptionRule, is_count
from fairlead.pipeline.programs.process import START, probe_program
from fairlead.pipeline.programs.wire import MOST_FRAMES, ProgramHello
from fairlead.pipeline.spec import StageSpec
from fairlead.units import QuantityError, Seconds, parse_duration


def _is_frames(value: Any) -> bool:
    return is_count(value) and value <= MOST_FRAMES


def _is_time(value: Any) -> bool:
    try:
        return isinstance(value, str) and not value[-1:].isdigit() and parse_duration(value) > 0
    except QuantityError:
        return False


EXEC_RULES: Final[dict[str, OptionRule]] = {
    "frames": OptionRule(f"a whole number from 1 to {MOST_FRAMES}", _is_frames),
    "start": OptionRule("a time with a unit, for example 30s", _is_time),
}
"""The options of an `exec` stage."""


def start_of(stage: StageSpec) -> Seconds:
    """Return how long the handshake of a program may take."""
    return parse_duration(stage.options["start"]) if "start" in stage.options else START


def program_ports(stage: StageSpec, folder: str, inputs: int) -> ProgramHello:
    """Return what the program of a stage says of itself; ProgramError if it cannot be used."""
    return probe_program(stage.command, folder, stage.name, inputs, start_of(stage))
