"""`fairlead pipeline worker` and `certificates`, and the options that other hosts need."""

import argparse
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.terminal import show_error
from fairlead.cli.pipeline.pages import serve_pages, worker_pages
from fairlead.errors import PipelineError, PipelineFailedError, SettingsError
from fairlead.units import parse_duration, pluralize

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairlead.pipeline.check import Problem
    from fairlead.pipeline.hosts.ask import HostAnswers
    from fairlead.pipeline.link.tls import HostTlsFiles
    from fairlead.pipeline.places import OtherHosts
    from fairlead.pipeline.spec import PipelineSpec
    from fairlead.pipeline.state.folder import StateFolder


_PAUSE: Final = 1.0
"""Seconds until hosts that have not answered are asked again."""


def add_tls(command: argparse.ArgumentParser) -> None:
    """Add the options that name certificates."""
    command.add_argument("--ca", metavar="FILE", help="the authority of every host's certificate, in PEM")
    command.add_argument("--cert", metavar="FILE", help="the certificate of this host, in PEM")
    command.add_argument("--key", metavar="FILE", help="the key of this host, in PEM")
    command.add_argument("--insecure", action="store_true", help="use no certificates, on the loopback only")
    command.add_argument(
        "--insecure-network",
        action="store_true",
        help="use no certificates on any address: every host that reaches the port can run code",
    )


def add_verbs(verbs: Any) -> None:
    """Add the commands."""
    worker = verbs.add_parser(
        "worker",
        help="take stages of pipelines that run on other machines",
        description="Serve this host to coordinators: it starts the stages that a pipeline puts on it, and "
        "ends them with their run. Code is not sent: the modules of the stages must be installed here, or "
        "lie in the folder.",
    )
    worker.add_argument("--listen", metavar="ADDRESS", required=True, help="HOST:PORT of this host")
    worker.add_argument("--folder", metavar="DIR", default=".", help="where modules and relative paths are")
    worker.add_argument(
        "--grace", metavar="TIME", default="10s", help="how long a coordinator may be away (default 10s)"
    )
    worker.add_argument(
        "--health",
        metavar="ADDR:PORT",
        help="serve /healthz and /readyz, for probes; a PORT alone is on 127.0.0.1, 0 is any free port",
    )
    add_tls(worker)
    worker.set_defaults(run=_worker)
    certificates = verbs.add_parser(
        "certificates",
        help="make the certificates of the hosts of a pipeline",
        description="Make an authority and a certificate for each host, or renew those of a folder.",
    )
    certificates.add_argument("folder", metavar="DIR", help="where the files are, or will be")
    certificates.add_argument(
        "--host",
        metavar="NAME[,ADDRESS...]",
        action="append",
        default=[],
        help="a host, and the addresses by which it is reached; may be repeated",
    )
    certificates.add_argument(
        "--days", metavar="N", type=int, default=30, help="how long they are valid (default 30)"
    )
    certificates.set_defaults(run=_certificates)


def tls_files(options: argparse.Namespace) -> "HostTlsFiles | None":
    """Return the certificates that the options name; None: there are none."""
    from fairlead.pipeline.link.tls import HostTlsFiles

    named = (options.ca, options.cert, options.key)
    if not any(named):
        return None
    if not all(named) or options.insecure or options.insecure_network:
        raise SettingsError("--ca, --cert and --key go together, and without --insecure", "state all three")
    files = HostTlsFiles(*named)
    files.read()
    return files


def ask(spec: "PipelineSpec", options: argparse.Namespace) -> "HostAnswers":
    """Ask the other hosts of a pipeline whether they can run it; without hosts, hpack is not needed."""
    from fairlead.pipeline.hosts.ask import ask_hosts

    tls = tls_files(options)
    require_private_hosts(spec, options)
    return ask_hosts(spec, tls)


def require_private_hosts(spec: "PipelineSpec", options: argparse.Namespace) -> None:
    """Refuse hosts without certificates, unless the options allow them; SettingsError."""
    from fairlead.pipeline.link.tls import require_private

    for host in spec.hosts:
        if host.address:
            require_private(
                host.address,
                tls_files(options),
                insecure=options.insecure,
                everywhere=options.insecure_network,
            )


def open_hosts(
    spec: "PipelineSpec",
    options: argparse.Namespace,
    state: "StateFolder | None",
    candidates: "Collection[str]" = (),
) -> "tuple[PipelineSpec, OtherHosts | None]":
    """Return the pipeline with the ports that its hosts declare, and the hosts; PipelineError.

    `candidates` are hosts that stages may move to.
    """
    if all(stage.on == "local" for stage in spec.stages) and not candidates and not options.follow:
        return spec, None
    from fairlead.pipeline.fuse import plan_workers
    from fairlead.pipeline.hosts.remote import RemoteHosts

    answers = _ask_within(spec, options)
    require_none(answers.problems)
    plan = plan_workers(answers.spec)
    kept = (state.record.run, state.record.attempt) if state is not None else ("", 0)
    return answers.spec, RemoteHosts(plan, tls_files(options), answers.replayable, *kept, candidates)


def add_patience(command: argparse.ArgumentParser) -> None:
    """Add the option that waits for hosts."""
    command.add_argument(
        "--hosts-within",
        metavar="TIME",
        default="0s",
        help="how long hosts may take to answer before the run begins (default: they must answer at once)",
    )


def _ask_within(spec: "PipelineSpec", options: argparse.Namespace) -> "HostAnswers":
    """Ask the hosts until all answer, or the time of --hosts-within is over."""
    import select
    import time

    from fairlead.signals import stop_signals

    end = time.monotonic() + _duration("--hosts-within", options.hosts_within)
    answers = ask(spec, options)
    if not answers.unreached or time.monotonic() >= end:
        return answers
    with stop_signals() as stop:
        show_error(f"fairlead: waits for {', '.join(answers.unreached)}: {answers.problems[0].what}")
        while answers.unreached and time.monotonic() < end:
            if select.select([stop], [], [], _PAUSE)[0]:
                raise PipelineFailedError(f"stopped before {', '.join(answers.unreached)} had answered")
            answers = ask(spec, options)
    return answers


def _duration(option: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{option} {text}: {error}", "write for example 10s") from None


def require_none(problems: "tuple[Problem, ...]") -> None:
    """Raise the first problem; PipelineError."""
    if problems:
        first = problems[0]
        more = f" (and {len(problems) - 1} more: fairlead pipeline check --connect)" if problems[1:] else ""
        raise PipelineError(f"{first.where}: {first.what}{more}", first.hint)


def _worker(options: argparse.Namespace) -> int:
    from fairlead.pipeline.hosts.server import HostServer
    from fairlead.pipeline.hosts.settings import HostSettings
    from fairlead.pipeline.link.tls import require_private
    from fairlead.pipeline.malloc import keep_freed_memory
    from fairlead.signals import stop_signals

    keep_freed_memory(os.environ)
    tls = tls_files(options)
    require_private(options.listen, tls, insecure=options.insecure, everywhere=options.insecure_network)
    if tls is None:
        show_error("fairlead: WITHOUT CERTIFICATES: whatever reaches this port can run code as this user")
    grace = _duration("--grace", options.grace)
    settings = HostSettings(options.listen, tls, os.path.abspath(options.folder), grace)
    server = HostServer(settings, lambda line: show_error(f"fairlead: {line}"))
    with ExitStack() as stack:
        stop = stack.enter_context(stop_signals())
        if options.health is not None:
            serve_pages(stack, "--health", options.health, worker_pages(server), "health")
        server.start()
        show_error(f"fairlead: listens on {options.listen.rpartition(':')[0]}:{server.port}")
        stop.recv(64)
        server.stop()
    refused = server.counters()["refused_connections"] + server.counters()["refused_streams"]
    show_error(f"fairlead: ended; {pluralize(refused, 'peer')} refused")
    return 0


def _certificates(options: argparse.Namespace) -> int:
    from fairlead.pipeline.hosts.certificates import write_certificates

    for path in write_certificates(options.folder, options.host, options.days):
        print(path)
    return 0
