"""A model as it runs: one list of steps, with everything that is known about the values between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.analyze import bounds
from fairlead.analyze.graph import Attribute, Constant, Fact


@dataclass(frozen=True, slots=True)
class Step:
    """One operator, with the names of its values unique in the program."""

    name: str
    op: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    exact: bool = True
    """False: its cost is a lower bound, whatever its shapes."""

    @property
    def first(self) -> str:
        """The first input; empty where there is none."""
        return self.inputs[0] if self.inputs else ""


@dataclass(frozen=True, slots=True)
class DerivedConstant:
    """A constant that is computed from others before the run."""

    op: str
    inputs: tuple[str, ...]
    """The constants whose elements it holds."""


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in an order in which they can run."""

    steps: tuple[Step, ...]
    facts: Mapping[str, Fact]
    constants: Mapping[str, Constant]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    derived: Mapping[str, DerivedConstant] = field(default_factory=dict)
    output_names: Mapping[str, str] = field(default_factory=dict)
    """The file's names of outputs whose producing steps do nothing and were removed."""

    def fixed(self, name: str) -> bool:
        """Say whether a value is the same in every run."""
        return name in self.constants or name in self.derived

    def fact(self, name: str) -> Fact:
        """Return the fact of a value."""
        return self.facts.get(name) or Fact()


class Notes:
    """The notes of an analysis, for people: each once, and a bounded number."""

    def __init__(self, notes: tuple[str, ...] = ()) -> None:
        self._notes = dict.fromkeys(notes)

    def add(self, note: str) -> None:
        """Add a note."""
        if len(self._notes) < bounds.NOTES:
            self._notes[note] = None

    def all(self) -> tuple[str, ...]:
        """Return the notes in the order of their addition."""
        return tuple(self._notes)
