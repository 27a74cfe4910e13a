"""`fairlead serve`: the programs that keep running."""

from typing import Any

from fairlead.cli.serve import admission, agent, extender, scheduler


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "serve", help="run a program that keeps running", description="Run a program that keeps running."
    )
    programs = command.add_subparsers(title="programs", dest="program", metavar="PROGRAM", required=True)
    for each in (agent, scheduler, extender, admission):
        each.add(programs)
