"""`fairlead schedule`: where workloads would go, and why not; nothing is changed anywhere."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairlead.cli import options as shared
from fairlead.cli.output import FORMATS, show, to_table
from fairlead.units import format_bytes, format_number

if TYPE_CHECKING:
    from fairlead.catalog import Catalog
    from fairlead.inventory import Accelerator
    from fairlead.manifest.snapshot import Snapshot
    from fairlead.placement import Decision, NodeState, Share
    from fairlead.request import Request
    from fairlead.whatif.document import Answer

HERE = "here"
"""This machine's name among the nodes."""
_HEAD = ("POD", "NODE", "DEVICES", "SHARE", "PREDICTED")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "schedule",
        help="show where workloads would go",
        description="Decide where workloads would go on a cluster that files describe, or on a live one, and "
        "say why not where they cannot. Nothing is changed anywhere. Exits 1 where something is refused.",
    )
    _add_files(command)
    command.add_argument(
        "--policy", metavar="NAME", default="fairlead", help="how to choose (default: fairlead)"
    )
    command.add_argument(
        "--no-preemption", action="store_true", help="put nobody out, however low its priority"
    )
    command.add_argument(
        "--explain", action="store_true", help="tell every reason, also for each accelerator of a refusal"
    )
    command.add_argument(
        "--profiles", metavar="DIR", help="where calibrations are (default: the profiles of this user)"
    )
    shared.add_catalog(command)
    command.add_argument("-o", "--output", choices=FORMATS, default="table", help="how to print it")
    command.set_defaults(run=run)


def _add_files(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cluster",
        metavar="FILE",
        action="append",
        default=[],
        help="a snapshot, manifests of nodes as kubectl prints them, or nodes of the short form; - is the "
        "standard input; manifests may be in several files (default: this machine)",
    )
    command.add_argument(
        "--live", action="store_true", help="the cluster of the kubeconfig, as it is now, instead of a file"
    )
    shared.add_cluster(command)
    command.add_argument(
        "--here", action="store_true", help="this machine too, as the node `here`, all of it free"
    )
    command.add_argument(
        "--workloads",
        metavar="FILE",
        action="extend",
        nargs="+",
        default=[],
        help="manifests as they are, or workloads of the short form (default: what waits in the cluster)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.cli.explain import text
    from fairlead.errors import ManifestError

    policy = _policy(options.policy)
    from fairlead.whatif.answer import answer

    if options.live and options.cluster:
        raise ManifestError("--live and --cluster are two clusters", "name one of them")
    if not options.cluster and not options.workloads and not options.live:
        raise ManifestError("there is nothing to place", "name --workloads, or a --cluster where pods wait")
    if options.cluster.count("-") + options.workloads.count("-") > 1:
        raise ManifestError("the standard input can be read once", "put one of the two into a file")
    cluster, requests = _question(options)
    found = answer(cluster, requests, policy, preemption=not options.no_preemption, detailed=options.explain)
    if options.output != "table":
        show(found.to_json(), options.output)
    else:
        print(table(found) if found.decisions else "nothing waits for a place")
        if options.explain:
            print("\n" + "\n\n".join(text(each, verbose=True) for each in found.to_json()["decisions"]))
    return 1 if found.refused else 0


def _question(options: argparse.Namespace) -> "tuple[Snapshot, list[Request]]":
    """Return the cluster, and what wants a place there."""
    from fairlead.cli.estimate import profiles
    from fairlead.estimate.knowledge import Knowledge
    from fairlead.manifest.workloadfile import read_workloads
    from fairlead.placement import NodeState

    catalog = shared.catalog_of(options)
    cluster = _cluster(options, catalog)
    here: tuple[Accelerator, ...] = ()
    if options.here or not (options.cluster or options.live):
        inventory = shared.inventory_of(catalog)
        here = inventory.accelerators
        cluster = joined(cluster, NodeState.of(HERE, inventory))
    if not options.workloads:
        return cluster, list(cluster.pending)
    known = profiles(options.profiles)
    knowledge = Knowledge.of(known.calibrations, catalog, known.seen)
    return cluster, read_workloads(options.workloads, cluster, catalog, knowledge, here)


def _cluster(options: argparse.Namespace, catalog: "Catalog") -> "Snapshot":
    """Return the cluster that the files describe, or the live one."""
    from fairlead.cli.snapshot import taken
    from fairlead.manifest.clusterfile import read_cluster
    from fairlead.manifest.snapshot import Snapshot

    if options.live:
        return taken(options, catalog)
    return read_cluster(options.cluster, catalog) if options.cluster else Snapshot()


def joined(cluster: "Snapshot", node: "NodeState") -> "Snapshot":
    """Return a cluster with one node more."""
    from fairlead.errors import ManifestError

    if any(each.name == node.name for each in cluster.nodes):
        raise ManifestError(
            f"--here: the cluster has a node {node.name!r} already", "rename it, or leave --here"
        )
    return replace(cluster, nodes=(*cluster.nodes, node))


def _policy(name: str) -> str:
    """Say early that there is no such policy, and that numpy is missing."""
    from fairlead.errors import MissingPartError

    try:
        from fairlead.schedule import policy_named
    except ModuleNotFoundError as error:
        raise MissingPartError(f"deciding needs {error.name}", "pip install 'fairlead[predict]'") from None
    return policy_named(name).name


def table(answer: "Answer") -> str:
    """Return the decisions for people: placements first, then who must go, then refusals."""
    rows = [_row(each, answer.predicted(each)) for each in answer.decisions if each.placed]
    parts = [to_table(_HEAD, rows)] if rows else []
    gone = [
        f"{victim} must go for {each.request.name}" for each in answer.decisions for victim in each.victims
    ]
    parts += ["\n".join(gone)] if gone else []
    refused = list(_refusals(answer.refused))
    parts += ["\n".join(refused)] if refused else []
    return "\n\n".join(parts)


def _row(decision: "Decision", seconds: float | None) -> tuple[str, ...]:
    placed = decision.placement
    assert placed is not None
    shares = placed.shares
    return (
        decision.request.name,
        placed.node,
        ", ".join(share.device for share in shares) or "-",
        _shares(shares),
        "-" if seconds is None else format_latency(seconds),
    )


def _shares(shares: "Sequence[Share]") -> str:
    """Return what is taken of each accelerator; all are alike, or each is told."""
    found = list(dict.fromkeys(_share(share) for share in shares))
    return found[0] if len(found) == 1 else ", ".join(_share(share) for share in shares) or "-"


def _share(share: "Share") -> str:
    if share.whole:
        return "whole"
    parts = [format_bytes(share.memory)] if share.memory else []
    parts += [f"{share.compute / 10:g} % compute"] if share.compute else []
    return " + ".join(parts) or "-"


def _refusals(refused: "Iterable[Decision]") -> Iterable[str]:
    """Yield each refusal once: what is said of replicas differs in the name alone."""
    alike: dict[str, list[str]] = {}
    for each in refused:
        name = each.request.name
        alike.setdefault(each.sentence().replace(name, "\0"), []).append(name)
    for sentence, names in alike.items():
        who = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more like it"
        yield f"refused: {sentence.replace(chr(0), who, 1).replace(chr(0), names[0])}"


def format_latency(seconds: float) -> str:
    """Print a latency as people quote it: `4.2 ms`."""
    return f"{format_number(seconds)} s" if seconds >= 1 else f"{format_number(1000 * seconds)} ms"
