"""`fairlead serve`: the programs that keep running."""

import argparse
import os
import sys
import time
from typing import Any

from fairlead.cli import options as shared
from fairlead.settings import LISTEN, agent_settings


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "serve", help="run a program that keeps running", description="Run a program that keeps running."
    )
    programs = command.add_subparsers(title="programs", dest="program", metavar="PROGRAM", required=True)
    agent = programs.add_parser(
        "agent",
        help="watch this machine's accelerators and serve metrics",
        description="Watch a machine's accelerators and serve /metrics for Prometheus, /healthz and /readyz.",
    )
    agent.add_argument(
        "--listen",
        metavar="ADDR:PORT",
        default=LISTEN,
        help="where to serve (default: %(default)s); no ADDR means every interface, PORT 0 any free one",
    )
    shared.add_root(agent)
    shared.add_catalog(agent)
    agent.add_argument(
        "--sweep", metavar="TIME", default="5m", help="look at everything this often (default: 5m)"
    )
    agent.add_argument("--sample", metavar="TIME", default="10s", help="measure this often (default: 10s)")
    agent.add_argument(
        "--no-uevents", action="store_true", help="do not listen to the kernel's device events"
    )
    agent.add_argument("--once", action="store_true", help="print the metrics page once and exit")
    agent.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the agent."""
    from fairlead.serve import loop  # keeps --help fast
    from fairlead.serve.agent import Agent
    from fairlead.serve.watch import watched

    settings = agent_settings(
        options.listen,
        options.sweep,
        options.sample,
        uevents=not options.no_uevents,
        node=os.environ.get("NODE_NAME") or os.uname().nodename,
    )
    with watched(options.root, shared.catalog_of(options), use_nvml=not options.no_nvml) as watch:
        if not options.once:
            loop.run(Agent(settings, watch, _say), settings, _say)
            return 0
        agent = Agent(settings, watch, lambda _: None)
        agent.step()
        time.sleep(0.2)  # a busy share is what a counter grew by between two looks
        agent.sample()
        sys.stdout.buffer.write(agent.page())
    return 0


def _say(line: str) -> None:
    print(f"fairlead agent: {line}", file=sys.stderr, flush=True)
