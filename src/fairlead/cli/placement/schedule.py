"""`fairlead schedule`: the nodes that workloads would get, or why none; nothing is changed."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.listing import select_columns, sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Tone
from fairlead.cli.output.terminal import Page, Reasons, Text, show_page
from fairlead.cli.shell import options as shared
from fairlead.units import format_bytes, format_number, pluralize

if TYPE_CHECKING:
    from fairlead.catalog import Catalog
    from fairlead.inventory import Accelerator
    from fairlead.manifest.files.snapshot import Snapshot
    from fairlead.placement import Decision, NodeState
    from fairlead.request import Request
    from fairlead.share import DeviceShare
    from fairlead.whatif.document import DecisionDocument

HERE = "here"
"""This machine's name among the nodes."""
_HEAD = (
    Column("POD", Fit.KEEP),
    *map(Column, ("NODE", "DEVICES", "SHARE", "PREDICTED")),
    Column("NAMESPACE", wide=True),
    Column("MODELS", wide=True),
    Column("SCORE", wide=True),
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "schedule",
        help="show where workloads would be placed",
        description="Decide where workloads would be placed on a cluster that files describe, or on a live "
        "one, and why a workload cannot be placed. Nothing is changed. The exit code is 1 if a workload is "
        "refused.",
    )
    _add_files(command)
    command.add_argument(
        "--policy",
        metavar="NAME",
        default="fairlead",
        help="the scoring policy (default: fairlead); what each does, also where a latency is not known: "
        "fairlead docs policies",
    )
    command.add_argument(
        "--no-preemption", action="store_true", help="evict no pod, however low its priority"
    )
    command.add_argument(
        "--explain", action="store_true", help="print every reason; of a refusal, also per accelerator"
    )
    command.add_argument(
        "--profiles", metavar="DIR", help="the folder of profiles (default: the profiles of this user)"
    )
    shared.add_catalog(command)
    shared.add_list(command, _HEAD)
    command.set_defaults(run=run)


def _add_files(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cluster",
        "--snapshot",
        metavar="FILE",
        action="append",
        default=[],
        help="a snapshot, an archive of fairlead debug-dump, manifests of nodes as kubectl prints them, or "
        "nodes in the short form; - is the standard input; manifests may be in several files (default: this "
        "machine)",
    )
    command.add_argument(
        "--live", action="store_true", help="use the cluster of the kubeconfig, as it is now, not a file"
    )
    shared.add_cluster(command)
    command.add_argument(
        "--here", action="store_true", help="add this machine, all of it free, as the node `here`"
    )
    command.add_argument(
        "--workloads",
        metavar="FILE",
        action="extend",
        nargs="+",
        default=[],
        help="manifests, or workloads in the short form (default: the pending pods of the cluster)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.errors import ManifestError

    policy = _check_policy(options.policy)
    from fairlead.whatif.answer import answer

    if options.live and options.cluster:
        raise ManifestError("--live and --cluster name two clusters", "leave one of them out")
    if not options.cluster and not options.workloads and not options.live:
        raise ManifestError("there is nothing to place", "name --workloads, or a --cluster with pending pods")
    if options.cluster.count("-") + options.workloads.count("-") > 1:
        raise ManifestError("the standard input can be read once", "write one of the two to a file")
    cluster, requests = _read_inputs(options)
    _say_without_telemetry(policy, requests)
    with progress(f"placing {pluralize(len(requests), 'workload')}"):
        document = answer(
            cluster, requests, policy, preemption=not options.no_preemption, detailed=options.explain
        )
    document = _sort(document, options.sort_by)
    _print(document, options)
    return 1 if document.refused else 0


def _sort(document: "DecisionDocument", name: str | None) -> "DecisionDocument":
    def row(each: "Decision") -> tuple[str | Cell, ...]:
        return _row(each, document)

    return replace(
        document, decisions=sorted_by(document.decisions, name, _HEAD, row, lambda each: each.to_json())
    )


def _print(document: "DecisionDocument", options: argparse.Namespace) -> None:
    if options.output in ("json", "yaml"):
        show(document.to_json(), options.output)
        return
    if options.no_headers or options.output == "name":
        rows = [_row(each, document) for each in document.decisions if each.placed]
        show_list(_HEAD, rows, options.output, headers=False, color=options.color)
        return
    page = table(document, options.output) if document.decisions else Page.of("no pending workloads")
    if options.explain:
        from fairlead.cli.placement.explanation_page import explanation_page

        explanations = [
            Page.of("", explanation_page(each, verbose=True)) for each in document.to_json()["decisions"]
        ]
        page = Page.of(page, *explanations)
    show_page(page, options.color)


def _read_inputs(options: argparse.Namespace) -> "tuple[Snapshot, list[Request]]":
    """Return the cluster, and the requests to place on it."""
    from fairlead.cli.model.estimate import load_profiles
    from fairlead.estimate.knowledge import Knowledge
    from fairlead.expect.workloads import read_workloads
    from fairlead.placement import NodeState

    catalog = shared.catalog_of(options)
    cluster = _read_cluster(options, catalog)
    here: tuple[Accelerator, ...] = ()
    if options.here or not (options.cluster or options.live):
        inventory = shared.detect_here(catalog)
        here = inventory.accelerators
        cluster = with_node(cluster, NodeState.of(HERE, inventory))
    if not options.workloads:
        return cluster, list(cluster.pending)
    known = load_profiles(options.profiles)
    knowledge = Knowledge.of(known.calibrations, catalog, known.seen)
    with progress("reading the workloads, and estimating their models"):
        return cluster, read_workloads(options.workloads, cluster, catalog, knowledge, here)


def _read_cluster(options: argparse.Namespace, catalog: "Catalog") -> "Snapshot":
    """Return the cluster that the files describe, or the live one."""
    from fairlead.cache.clusterfile import read_cluster
    from fairlead.cli.placement.snapshot import take_snapshot
    from fairlead.manifest.files.snapshot import Snapshot

    if options.live:
        return take_snapshot(options, catalog)
    if not options.cluster:
        return Snapshot()
    with progress("reading the cluster's files"):
        return read_cluster(options.cluster, catalog)


def with_node(cluster: "Snapshot", node: "NodeState") -> "Snapshot":
    """Return the cluster with one more node."""
    from fairlead.errors import ManifestError

    if any(each.name == node.name for each in cluster.nodes):
        raise ManifestError(
            f"--here: the cluster has a node {node.name!r} already", "rename it, or leave --here out"
        )
    return replace(cluster, nodes=(*cluster.nodes, node))


def _say_without_telemetry(policy: str, requests: "Iterable[Request]") -> None:
    """Say on the standard error that a policy by measured use decides by requests: files have none."""
    from fairlead.schedule import policy_named

    note = policy_named(policy).without_telemetry()
    if note and all(request.need is None for request in requests):
        print(f"fairlead: {note}", file=sys.stderr)


def _check_policy(name: str) -> str:
    """Return the policy's name; raise early if there is no such policy."""
    from fairlead.schedule import policy_named

    return policy_named(name).name


def table(answer: "DecisionDocument", output: str = "table") -> Page:
    """Return the decisions as a page for people: placements, then victims of preemption, then refusals."""
    rows = [_row(each, answer) for each in answer.decisions if each.placed]
    victims = [
        Text(f"{victim} is evicted to make room for {each.request.name}", Tone.WARN)
        for each in answer.decisions
        for victim in each.victims
    ]
    refused = list(_refusals(answer.refused))
    parts = [Page.of(select_columns(_HEAD, rows, output, headers=True))] if rows else []
    parts += [Page.of(part) for part in (victims, list(_unknown(answer.decisions)), refused) if part]
    return Page.of(*(Page.of("", part) if number else part for number, part in enumerate(parts)))


def _row(decision: "Decision", answer: "DecisionDocument") -> tuple[str | Cell, ...]:
    placed = decision.placement
    if placed is None:
        return (decision.request.name, *["-"] * (len(_HEAD) - 1))
    shares = placed.shares
    return (
        decision.request.name,
        placed.node,
        ", ".join(share.device for share in shares) or "-",
        Cell(_shares(shares), sum(share.memory for share in shares) or None),
        _predicted(decision, answer),
        decision.request.namespace,
        ", ".join(dict.fromkeys(filter(None, answer.models(decision)))) or "-",
        Cell(f"{decision.score:.3f}", decision.score),
    )


def _predicted(decision: "Decision", answer: "DecisionDocument") -> str | Cell:
    seconds = answer.predicted(decision)
    if seconds is not None:
        return Cell(format_latency(seconds), seconds)
    return Cell("not known", tone=Tone.WARN) if decision.unknown else "-"


def _unknown(decisions: "Iterable[Decision]") -> Iterable[Text]:
    """Yield what is not known of places, once for all pods of which it holds."""
    pods: dict[str, list[str]] = {}
    for decision in decisions:
        for text in decision.unknown:
            pods.setdefault(text, []).append(decision.request.name)
    for text, (first, *more) in pods.items():
        names = f"{first} and {len(more)} more" if more else first
        yield Text(f"{names}: {text}", Tone.WARN)


def _shares(shares: "Sequence[DeviceShare]") -> str:
    """Return the share of each accelerator; once if all are alike."""
    texts = list(dict.fromkeys(_share(share) for share in shares))
    return texts[0] if len(texts) == 1 else ", ".join(_share(share) for share in shares) or "-"


def _share(share: "DeviceShare") -> str:
    if share.whole:
        return "whole"
    parts = [format_bytes(share.memory)] if share.memory else []
    parts += [f"{share.compute / 10:g} % compute"] if share.compute else []
    return " + ".join(parts) or "-"


def _refusals(refused: "Iterable[Decision]") -> Iterable[Reasons]:
    """Yield each refusal once: the sentences of replicas differ in the name alone."""
    alike: dict[str, list[Decision]] = {}
    for each in refused:
        alike.setdefault(each.sentence().replace(each.request.name, "\0"), []).append(each)
    for sentence, those in alike.items():
        first, more = those[0], len(those) - 1
        name = first.request.name
        names = f"{name} and {more} more like it" if more else name
        change = [f"smallest change that would fit: {first.changes[0].text}"] if first.has_suggestion else []
        yield Reasons(
            f"refused: {sentence.replace(chr(0), names, 1).replace(chr(0), name)}",
            f"refused: {first.headline().replace(name, names, 1)}",
            (*first.reasons(), *change),
        )


def format_latency(seconds: float) -> str:
    """Return a latency as people quote it: `4.2 ms`."""
    return f"{format_number(seconds)} s" if seconds >= 1 else f"{format_number(1000 * seconds)} ms"
