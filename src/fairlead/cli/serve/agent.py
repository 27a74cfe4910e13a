"""`fairlead serve agent`: watch a machine's accelerators, serve metrics, publish them to Kubernetes."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.cli.shell import options as shared
from fairlead.dcgm import Names
from fairlead.faults import APPLICATION_XIDS
from fairlead.settings import LISTEN
from fairlead.settings.agent import agent_settings, parse_xids

if TYPE_CHECKING:
    from fairlead.host import Host
    from fairlead.serve.agent.publisher import PublisherThread
    from fairlead.serve.agent.use_tracker import UseTracker

KUBELET = "/var/lib/kubelet"


def add(programs: Any) -> None:
    """Add the program to the command line."""
    agent = programs.add_parser(
        "agent",
        help="watch this machine's accelerators, serve metrics, publish to Kubernetes",
        description="Watch a machine's accelerators and serve /metrics for Prometheus, /healthz and /readyz; "
        "with --publish, publish them to Kubernetes and allocate them to pods.",
    )
    _add_watching(agent)
    _add_publishing(agent.add_argument_group("publishing to Kubernetes"))
    agent.set_defaults(run=run)


def _add_watching(agent: argparse.ArgumentParser) -> None:
    shared.add_listen(agent, LISTEN)
    shared.add_tls(agent)
    agent.add_argument(
        "--token-file",
        metavar="FILE",
        default="",
        help="serve metrics only to requests with this bearer token",
    )
    shared.add_root(agent)
    agent.add_argument(
        "--host-root",
        metavar="DIR",
        default="",
        help="the folder in a container where this machine's /sys, /proc, /dev and /etc are mounted",
    )
    agent.add_argument(
        "--no-dev",
        action="store_true",
        help="this machine's /dev is not visible (as in a user namespace): rely on sysfs instead",
    )
    shared.add_catalog(agent)
    agent.add_argument(
        "--sweep", metavar="TIME", default="5m", help="detect all accelerators this often (default: 5m)"
    )
    agent.add_argument("--sample", metavar="TIME", default="10s", help="measure this often (default: 10s)")
    agent.add_argument(
        "--no-uevents", action="store_true", help="do not listen to the kernel's device events"
    )
    agent.add_argument("--once", action="store_true", help="print the metrics page once and exit")
    _add_gpus(agent)
    _add_attribution(agent)


def _add_gpus(agent: argparse.ArgumentParser) -> None:
    agent.add_argument(
        "--dcgm-names",
        choices=tuple(Names),
        default=Names.BOTH.value,
        help="the names of GPU metrics: those of dcgm-exporter up to 4.8 (old), since 4.9 (new) or both "
        "(default: both)",
    )
    agent.add_argument(
        "--ignore-xids",
        metavar="LIST",
        default="",
        help="further XIDs that leave an NVIDIA GPU healthy, beside those that applications cause "
        f"({', '.join(str(xid) for xid in sorted(APPLICATION_XIDS))}); separated by commas, or all",
    )


def _add_attribution(agent: argparse.ArgumentParser) -> None:
    agent.add_argument(
        "--attribution",
        metavar="DIR",
        default="",
        help="the folder of the socket of `fairlead warden attribute`: measure the use of each pod",
    )
    agent.add_argument(
        "--container-links",
        metavar="DIR",
        default="/var/log/containers",
        help="the kubelet's folder of links that name containers (default: %(default)s)",
    )


def _add_publishing(group: Any) -> None:
    group.add_argument(
        "--publish",
        metavar="WHAT",
        default="",
        help="labels, plugin (device plugin), claims (DRA), separated by commas, or all (default: nothing)",
    )
    group.add_argument("--node", metavar="NAME", default="", help="the node's name (default: $NODE_NAME)")
    group.add_argument(
        "--legacy-labels", action="store_true", help="publish the un-prefixed gpu.* labels as well"
    )
    _add_allocation(group)
    shared.add_cluster(group)


def _add_allocation(group: Any) -> None:
    group.add_argument(
        "--kubelet-dir", metavar="DIR", default=KUBELET, help="the kubelet's folder (default: %(default)s)"
    )
    group.add_argument(
        "--warden",
        metavar="DIR",
        default="",
        help="the folder of the warden's sockets: the kubelet's pod resources, and CDI",
    )
    group.add_argument(
        "--no-cdi", action="store_true", help="the warden writes no CDI files: allocate plain device nodes"
    )
    group.add_argument(
        "--memory-unit", choices=("MiB", "GiB"), default="MiB", help="the unit of a share (default: MiB)"
    )
    group.add_argument(
        "--most-units",
        metavar="N",
        type=int,
        default=0,
        help="the most units of memory to offer (default: as many as the node's kubelet accepts)",
    )
    group.add_argument(
        "--nvidia",
        choices=("auto", "env", "cdi"),
        default="auto",
        help="allocate NVIDIA GPUs by the runtime's environment or by its CDI file (default: auto)",
    )
    group.add_argument(
        "--device-root",
        metavar="DIR",
        default="",
        help="the folder on the node with the device nodes of a replayed machine (default: the node's own)",
    )
    _add_limiter(group)


def _add_limiter(group: Any) -> None:
    group.add_argument(
        "--limiter",
        metavar="DIR",
        default="",
        help="the folder of the socket of `fairlead warden limit`: hold pods to their share that ask for it",
    )
    group.add_argument(
        "--limit-hami", action="store_true", help="hold every pod with HAMi's resources to its share"
    )


def run(options: argparse.Namespace) -> int:
    """Run the agent."""
    from fairlead.serve.agent import loop  # keeps --help fast
    from fairlead.serve.agent.agent import Agent
    from fairlead.serve.agent.monitor import open_monitor

    node = options.node or os.environ.get("NODE_NAME") or os.uname().nodename
    settings = agent_settings(
        options.listen,
        options.sweep,
        options.sample,
        uevents=not options.no_uevents,
        node=node,
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        token_file=options.token_file,
        dcgm_names=options.dcgm_names,
    )
    root, here = options.host_root or options.root, bool(options.host_root)
    catalog = shared.catalog_of(options)
    xids = parse_xids(options.ignore_xids)
    monitor = open_monitor(
        root, catalog, use_nvml=not options.no_nvml, here=here, dev=not options.no_dev, xids=xids
    )
    with monitor as watch:
        if not options.once:
            with _run_publisher(options, node, watch.look) as publisher:
                agent = Agent(settings, watch, _log, publisher=publisher, use=_use_tracker(options))
                loop.run(agent, settings, _log)
            return 0
        agent = Agent(settings, watch, lambda _: None, use=_use_tracker(options))
        agent.step()
        time.sleep(0.2)  # utilisation is the growth of a counter between two samples
        agent.sample()
        sys.stdout.buffer.write(agent.page())
    return 0


@contextmanager
def _run_publisher(
    options: argparse.Namespace, node: str, look: "Callable[[], Host]"
) -> Iterator["PublisherThread | None"]:
    """Run a publisher while the block runs; none without --publish."""
    if not options.publish:
        yield None
        return
    from functools import partial

    from fairlead.cluster.client import Client
    from fairlead.cluster.config import kubeconfig
    from fairlead.serve.agent.publisher import PublisherEnvironment, PublisherThread
    from fairlead.settings.publishing import PublishConfig, check, parse_targets

    config = PublishConfig(
        node=node,
        targets=parse_targets(options.publish),
        legacy_labels=options.legacy_labels,
        kubelet=Path(options.kubelet_dir),
        warden=Path(options.warden) if options.warden else None,
        with_cdi=not options.no_cdi,
        gibibytes=options.memory_unit == "GiB",
        most_units=options.most_units,
        nvidia=options.nvidia,
        device_root=options.device_root.rstrip("/"),
        limiter_folder=Path(options.limiter) if options.limiter else None,
        limit_hami=options.limit_hami,
    )
    check(config, ready=(config.sockets, config.registry) if config.forms else ())
    connect = partial(Client.connect, kubeconfig.load(options.kubeconfig, options.context))
    publisher = PublisherThread(PublisherEnvironment(config, connect, look), _log)
    publisher.start()
    try:
        yield publisher
    finally:
        publisher.stop()


def _use_tracker(options: argparse.Namespace) -> "UseTracker | None":
    if not options.attribution:
        return None
    from fairlead.serve.agent.use_tracker import UseTracker

    return UseTracker(Path(options.attribution), _log, Path(options.container_links))


def _log(line: str) -> None:
    print(f"fairlead agent: {line}", file=sys.stderr, flush=True)
