"""`fairlead serve`: the programs that keep running."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from fairlead.cli import options as shared

if TYPE_CHECKING:
    from fairlead.serve.agent import Agent
    from fairlead.settings import AgentSettings


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser("serve", help="run a program that keeps running", description="Run a program.")
    programs = command.add_subparsers(title="programs", dest="program", metavar="PROGRAM", required=True)
    agent = programs.add_parser(
        "agent",
        help="watch this machine's accelerators and serve metrics",
        description="Watch a machine's accelerators and serve a Prometheus page: /metrics, /healthz, /readyz.",
    )
    agent.add_argument(
        "--listen",
        metavar="ADDR:PORT",
        default="127.0.0.1:19809",
        help="where to serve (default: %(default)s; :19809 means every interface)",
    )
    shared.add_root(agent)
    shared.add_catalog(agent)
    agent.add_argument("--sweep", metavar="TIME", default="5m", help="look at everything this often (default: 5m)")
    agent.add_argument("--sample", metavar="TIME", default="10s", help="measure this often (default: 10s)")
    agent.add_argument("--no-uevents", action="store_true", help="do not listen to the kernel's device events")
    agent.add_argument("--once", action="store_true", help="print the metrics page once and exit")
    agent.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the agent."""
    from fairlead.serve.agent import Agent  # noqa: PLC0415  # keeps --help fast
    from fairlead.serve.machine import watched  # noqa: PLC0415
    from fairlead.settings import agent_settings  # noqa: PLC0415

    settings = agent_settings(
        options.listen,
        options.sweep,
        options.sample,
        uevents=not options.no_uevents,
        node=os.environ.get("NODE_NAME") or os.uname().nodename,
    )
    catalog = shared.catalog_of(options)
    with watched(options.root, catalog, use_nvml=not options.no_nvml) as machine:
        agent = Agent(settings, machine, _say)
        if options.once:
            _print_once(agent)
        else:
            _keep_running(agent, settings)
    return 0


def _print_once(agent: "Agent") -> None:
    """Measure twice: a busy share is what a counter grew by."""
    import time  # noqa: PLC0415

    agent.step()
    time.sleep(0.2)
    agent.sample()
    sys.stdout.buffer.write(agent.page())


def _keep_running(agent: "Agent", settings: "AgentSettings") -> None:
    import socket  # noqa: PLC0415

    from fairlead.serve.agent import serve  # noqa: PLC0415
    from fairlead.serve.httpd import listen  # noqa: PLC0415
    from fairlead.settings import Address  # noqa: PLC0415

    listener = listen(settings.listen)
    host, port = listener.getsockname()[:2]
    _say(f"listening on http://{Address(host, port)}/metrics")
    here, there = socket.socketpair()
    with here, there, _signals_to(there):
        uevents = _uevents() if settings.uevents else None
        serve(agent, listener, here, uevents)


def _say(line: str) -> None:
    print(f"fairlead agent: {line}", file=sys.stderr, flush=True)
