"""How a model is trained: optimiser, precision, batch, and how long."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from fairlead.errors import SettingsError

PRECISIONS: Final = ("fp32", "amp", "bf16")
"""`amp`: weights of 32 bits, products of 16; `bf16`: everything of 16 bits."""
USUAL_BATCH: Final = 32
_MOST_BATCH: Final = 1_000_000
_MOST_SAMPLES: Final = 10**15
"""Bounds of what is asked; a larger number is a slip."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimiser: what it holds for each weight, and what its update moves."""

    states: float
    """Values that it keeps for each weight."""
    temporary: float = 0.0
    """Values for each weight that exist while it updates."""
    calls: int = 3
    """Passes over all weights in an update; frameworks join the weights of many layers in one kernel."""


OPTIMIZERS: Final[Mapping[str, Optimizer]] = {
    "sgd": Optimizer(1.0, calls=3),
    "sgd-plain": Optimizer(0.0, calls=1),
    "adam": Optimizer(2.0, 1.0, calls=8),
    "adamw": Optimizer(2.0, 1.0, calls=9),
    "rmsprop": Optimizer(1.0, 1.0, calls=5),
    "adagrad": Optimizer(1.0, 1.0, calls=4),
    "lion": Optimizer(1.0, 1.0, calls=5),
}
"""By name; `sgd` is with momentum, as nearly every recipe has it, `sgd-plain` without.

States and temporaries are those of PyTorch's multi-tensor forms (2.11); Adam's peaks on an H200 fit them.
"""


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """How a model is trained."""

    batch: int
    optimizer: str = "sgd"
    precision: str = "fp32"
    checkpointing: bool = False
    samples: int | None = None
    """Of the data set; with epochs, a job has an end."""
    epochs: int = 1

    @classmethod
    def of(
        cls,
        batch: int,
        optimizer: str | None = None,
        precision: str | None = None,
        *,
        checkpointing: bool = False,
        samples: int | None = None,
        epochs: int | None = None,
    ) -> "TrainingSetup":
        """Return a checked setup; None stands for what is usual."""
        name, kind = (optimizer or "sgd").lower(), (precision or "fp32").lower()
        if name not in OPTIMIZERS:
            raise SettingsError(f"--optimizer {optimizer}: not known", f"known: {', '.join(OPTIMIZERS)}")
        if kind not in PRECISIONS:
            raise SettingsError(
                f"--precision {precision}: nothing trains in it here", f"known: {', '.join(PRECISIONS)}"
            )
        if not 1 <= batch <= _MOST_BATCH:
            raise SettingsError(
                f"a batch of {batch} is not possible", f"write a number from 1 to {_MOST_BATCH}"
            )
        for option, number in (("--samples", samples), ("--epochs", epochs)):
            if number is not None and not 1 <= number <= _MOST_SAMPLES:
                raise SettingsError(f"{option} {number}: not possible", "write a positive number")
        if epochs is not None and samples is None:
            raise SettingsError(
                "--epochs needs --samples", "say how many samples an epoch has: --samples 50000"
            )
        return cls(batch, name, kind, checkpointing, samples, epochs or 1)

    @property
    def rule(self) -> Optimizer:
        """What its optimiser holds and moves."""
        return OPTIMIZERS[self.optimizer]

    @property
    def weight_width(self) -> int:
        """Bytes of a weight, and of its gradient and states."""
        return 2 if self.precision == "bf16" else 4

    @property
    def steps(self) -> int | None:
        """Steps of the whole job; None where it has no end."""
        return None if self.samples is None else ceil(self.samples / self.batch) * self.epochs


_WORDS: Final = ("batch", "optimizer", "precision", "samples", "epochs", "checkpointing")
_SEPARATORS: Final = re.compile(r"[\s,;]+")
_LONGEST: Final = 400


def parse_setup(text: str, precision: str = "") -> TrainingSetup:
    """Parse the setup of an annotation: `batch=64 optimizer=adam precision=amp samples=50000 epochs=10`."""
    values: dict[str, str] = {}
    for word in filter(None, _SEPARATORS.split(text[:_LONGEST].strip())):
        name, equal, value = word.partition("=")
        if name not in _WORDS or (not equal and name != "checkpointing"):
            raise SettingsError(
                f"training {text!r}: {word!r} is not known", f"write some of: {', '.join(_WORDS)}"
            )
        values[name] = value
    numbers = {name: _number(text, name, values.get(name)) for name in ("batch", "samples", "epochs")}
    return TrainingSetup.of(
        USUAL_BATCH if numbers["batch"] is None else numbers["batch"],
        values.get("optimizer"),
        values.get("precision") or (precision if precision in PRECISIONS else None),
        checkpointing=values.get("checkpointing", "false") != "false",
        samples=numbers["samples"],
        epochs=numbers["epochs"],
    )


def _number(text: str, name: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdigit() or len(value) > len(str(_MOST_SAMPLES)):
        raise SettingsError(f"training {text!r}: {name}={value} is not a number", f"write it like {name}=64")
    return int(value)
