"""`fairlead serve`: the programs that keep running."""

from typing import Any

from fairlead.cli import serve_admission, serve_agent, serve_extender, serve_scheduler


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "serve", help="run a program that keeps running", description="Run a program that keeps running."
    )
    programs = command.add_subparsers(title="programs", dest="program", metavar="PROGRAM", required=True)
    for each in (serve_agent, serve_scheduler, serve_extender, serve_admission):
        each.add(programs)
