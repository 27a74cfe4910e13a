"""What an experiment gave: its figures, the page for people and the picture."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.cli.output.picture import check_writable, draw
from fairlead.cli.output.show import show
from fairlead.cli.output.terminal import Page, show_page


@dataclass(frozen=True, slots=True)
class ExperimentOutcome:
    """An experiment that was played or measured."""

    answer: dict[str, Any]
    """The contract of `-o json`."""
    page: Page
    picture: Callable[[], str] | None = None
    """Draws the figures as SVG."""
    exit_code: int = 0

    @property
    def missing(self) -> list[str]:
        """What could not be done here."""
        return list(self.answer.get("missing", ()))


def finish(options: argparse.Namespace, perform: Callable[[argparse.Namespace], ExperimentOutcome]) -> int:
    """Run an experiment, print what it gave, and draw it where `--plot` says so."""
    if options.plot:
        check_writable(options.plot)
    outcome = perform(options)
    if options.output == "table":
        show_page(outcome.page, options.color)
    else:
        show(outcome.answer, options.output)
    if options.plot and outcome.picture:  # last: a picture that cannot be written must not cost the answer
        draw(options.plot, outcome.picture())
    return outcome.exit_code
