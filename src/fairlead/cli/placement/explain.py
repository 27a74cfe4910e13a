"""`fairlead explain`: why a pod is on its node, or why it has none; how a Pipeline is doing, and why."""

import argparse
from typing import Any

from fairlead.cli.output.show import show
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.placement import explain_live, explain_pipeline
from fairlead.cli.placement.explanation_page import explanation_page
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "explain",
        help="explain why a pod is on its node or waits, or how a pipeline is doing",
        description="Explain why a pod of a live cluster is on its node, or why it waits, by asking its "
        "scheduler. With --snapshot, decide here for pods of a recorded cluster. With --decision, explain "
        "the decisions that `fairlead schedule -o json` wrote. Each reason comes with its count and the "
        "smallest change that would fit. The exit code is 1 if a pod has no node. `explain pipeline NAME` "
        "explains a pipeline: whether it runs, where its stages are, what limits it, and what would help. "
        "The exit code is 1 if it does not run.",
    )
    command.add_argument(
        "pod",
        metavar="POD",
        nargs="?",
        help="a name, or namespace/name; with --decision also a controller's name (default: all pods)",
    )
    command.add_argument(
        "name", metavar="PIPELINE", nargs="?", help="after the word pipeline: the name of one, or its file"
    )
    command.add_argument(
        "--decision", metavar="FILE", help="a file of schedule's decisions; - is the standard input"
    )
    command.add_argument(
        "--snapshot",
        metavar="FILE",
        help="decide here for a pod of a snapshot, or of an archive of fairlead debug-dump, not of a cluster",
    )
    command.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also the reason of each accelerator; needs --local, or a decision of schedule --explain",
    )
    explain_live.add(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.name is not None:
        if options.pod != explain_pipeline.WORD:
            raise SettingsError(
                f"{options.pod} {options.name}: two names", "name one pod, or `pipeline NAME`"
            )
        return explain_pipeline.run(options)
    if options.decision is not None:
        decisions = _read_decisions(options)
    elif options.snapshot is not None:
        decisions = _decide_in_snapshot(options)
    else:
        decisions = explain_live.explain_pod(options)
    if options.output == "table":
        pages = [explanation_page(decision, verbose=options.verbose) for decision in decisions]
        pages = pages or [Page.of("no decisions")]
        separated = [Page.of("", page) if number else page for number, page in enumerate(pages)]
        show_page(Page.of(*separated), options.color)
    else:
        show(decisions, options.output)
    return 0 if all(decision["placed"] for decision in decisions) else 1


def _read_decisions(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the decisions of a file."""
    from fairlead.manifest.files.text import read_one
    from fairlead.whatif import document

    where, value = read_one(options.decision)
    decisions = document.parse(value, where)
    return decisions if options.pod is None else document.find_decisions(decisions, options.pod, where)


def _decide_in_snapshot(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the decisions for pending pods of a recorded cluster, or where a running one is."""
    from fairlead.cache.clusterfile import read_cluster
    from fairlead.whatif.recorded import decide_recorded

    snapshot = read_cluster([options.snapshot], shared.catalog_of(options))
    namespace, _, name = (options.pod or "").rpartition("/")
    namespace = namespace or options.namespace or ""
    return decide_recorded(snapshot, namespace, name, options.snapshot, detailed=options.verbose)
