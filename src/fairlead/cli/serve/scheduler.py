"""`fairlead serve scheduler`: schedule the pods of a live cluster."""

import argparse
import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.cli.serve import leader_options
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.settings import parse_address

if TYPE_CHECKING:
    from fairlead.usage.source import UsageSettings

LISTEN = "127.0.0.1:19810"


def add(programs: Any) -> None:
    """Add the program to the command line."""
    command = programs.add_parser(
        "scheduler",
        help="schedule the pods of a cluster that name it, down to the accelerator",
        description="Schedule pods with schedulerName: fairlead; serve /metrics, /explain, /healthz and "
        "/readyz.",
    )
    command.add_argument(
        "--name", default="fairlead", help="schedule pods with this schedulerName (default: %(default)s)"
    )
    command.add_argument("--policy", default="fairlead", help="the scoring policy (default: %(default)s)")
    shared.add_listen(command, LISTEN)
    command.add_argument(
        "--in-flight", metavar="N", type=int, default=32, help="concurrent requests (default: %(default)s)"
    )
    command.add_argument(
        "--no-own-claims",
        action="store_true",
        help="assign accelerators by annotation alone, without ResourceClaims of its own",
    )
    leader_options.add_lease_namespace(command)
    command.add_argument(
        "--record", metavar="FILE", help="record every event and effect, for `fairlead replay`"
    )
    _add_usage(command)
    leader_options.add_times(command)
    shared.add_cluster(command)
    shared.add_catalog(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the scheduler."""
    shared.check_python("scheduler")
    from fairlead.cluster.config import kubeconfig
    from fairlead.schedule import policy_named
    from fairlead.serve.scheduler import program
    from fairlead.settings.leader import LEASE_NAME
    from fairlead.settings.scheduler import SchedulerSettings
    from fairlead.usage.limits import PERIOD

    if not 1 <= options.in_flight <= 1000:
        raise SettingsError(f"--in-flight {options.in_flight}: out of range", "choose from 1 to 1000")
    policy = policy_named(options.policy)
    usage = _usage(options, needed=bool(policy.telemetry))
    settings = SchedulerSettings(
        me=f"{os.uname().nodename}-{uuid.uuid4().hex[:8]}",
        name=options.name,
        policy=options.policy,
        in_flight=options.in_flight,
        own_claims=not options.no_own_claims,
        usage=usage is not None,
        usage_period=usage.period if usage is not None else PERIOD,
        oom_bound=_bound(options.oom_bound),
        lease=leader_options.leader_election(options, LEASE_NAME, "scheduler"),
    )
    config = kubeconfig.load(options.kubeconfig, options.context)
    record = Path(options.record) if options.record else None
    listen = parse_address(options.listen)
    program.run(config, shared.catalog_of(options), settings, listen, _log, record, usage)
    return 0


def _add_usage(command: argparse.ArgumentParser) -> None:
    """Add the options of measured use; with the default policy nothing is read."""
    command.add_argument(
        "--usage",
        choices=("auto", "prometheus", "agents", "none"),
        default="auto",
        help="where measured use is read: auto reads it for policies that go by it, from Prometheus if its "
        "address is given, else from the agents (default: %(default)s)",
    )
    command.add_argument("--prometheus", metavar="URL", default="", help="the address of Prometheus")
    command.add_argument(
        "--prometheus-token-file", metavar="FILE", default="", help="a bearer token for Prometheus or agents"
    )
    command.add_argument(
        "--prometheus-ca-file",
        metavar="FILE",
        default="",
        help="certificate authorities of Prometheus or of the agents",
    )
    command.add_argument(
        "--usage-period", metavar="TIME", default="15s", help="between two reads (default: %(default)s)"
    )
    command.add_argument(
        "--oom-bound",
        metavar="P",
        default="0.001",
        help="the probability, for one placement, that the pods of an accelerator need more memory than it "
        "has (default: %(default)s)",
    )


def _usage(options: argparse.Namespace, *, needed: bool) -> "UsageSettings | None":
    """Return the settings of measured use; None: nothing is read."""
    from fairlead.usage.source import SourceName, UsageSettings, check_settings

    source = SourceName(options.usage)
    if source is SourceName.NONE or (source is SourceName.AUTO and not (needed or options.prometheus)):
        return None
    settings = UsageSettings(
        source,
        options.prometheus,
        options.prometheus_token_file,
        ca_file=options.prometheus_ca_file,
        period=leader_options.positive_seconds("--usage-period", options.usage_period),
    )
    check_settings(settings)
    return settings


def _bound(text: str) -> float:
    try:
        bound = float(text)
    except ValueError:
        bound = 0.0
    if not 1e-9 <= bound <= 0.5:
        raise SettingsError(f"--oom-bound {text}: not a probability", "choose from 1e-9 to 0.5, like 0.001")
    return bound


def _log(line: str) -> None:
    print(f"fairlead scheduler: {line}", file=sys.stderr, flush=True)
