"""`fairlead serve`: the long-running programs."""

from typing import Any

from fairlead.cli.serve import admission, agent, dashboard, extender, operator, scheduler, store, tier


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "serve", help="run a long-running program", description="Run a long-running program."
    )
    programs = command.add_subparsers(title="programs", dest="program", metavar="PROGRAM", required=True)
    for each in (agent, scheduler, extender, admission, operator, dashboard, store, tier):
        each.add(programs)
