"""`fairlead bench openb`: fill a published cluster trace by a policy, and measure the allocation."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.progress import Progress, progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Table
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.units import pluralize

if TYPE_CHECKING:
    from fairlead.simulate.trace.openb import FillResult


def add(verbs: Any) -> None:
    """Add the verb to `fairlead bench`."""
    command = verbs.add_parser(
        "openb",
        help="fill a cluster trace by a policy, and measure how much is allocated",
        description="Run the published protocol: pods arrive until they request 130 % of all accelerators, "
        "no pod leaves, and the result is the share that is allocated then. Node names are shuffled for each "
        "seed.",
    )
    command.add_argument("--pods", metavar="FILE", required=True, help="a CSV file of pods, plain or gzip")
    command.add_argument("--nodes", metavar="FILE", required=True, help="a CSV file of nodes, plain or gzip")
    command.add_argument(
        "--policy", metavar="NAME", default="fairlead", help="the scoring policy (default: fairlead)"
    )
    command.add_argument(
        "--seeds", metavar="N", type=int, default=10, help="the number of runs (default: 10)"
    )
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if not 1 <= options.seeds <= 1000:
        raise SettingsError(f"--seeds {options.seeds}: must be from 1 to 1000")
    from fairlead.schedule import policy_named
    from fairlead.simulate.trace.openb import FIRST_SEED, fill, read_nodes, read_pods

    policy = policy_named(options.policy)
    nodes, pods = read_nodes(options.nodes), read_pods(options.pods)
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    with progress(f"filling by {policy.name}") as bar:
        runs = [fill(nodes, pods, policy, seed, _percents(bar, seed)) for seed in seeds]
    document = to_document(policy.name, len(nodes), sum(len(node.devices) for node in nodes), runs)
    if options.output == "table":
        show_page(table(document), options.color)
    else:
        show(document, options.output)
    return 0


def to_document(policy: str, nodes: int, gpus: int, runs: "list[FillResult]") -> dict[str, Any]:
    """Return the result as a document."""
    mean = sum(each.allocation for each in runs) / len(runs)
    return {
        "policy": policy,
        "nodes": nodes,
        "gpus": gpus,
        "allocation_percent_mean": round(100 * mean, 4),
        "seeds": [
            {
                "seed": each.seed,
                "allocation_percent": round(100 * each.allocation, 4),
                "seconds": round(each.seconds, 3),
            }
            for each in runs
        ],
    }


def table(document: dict[str, Any]) -> Page:
    """Return the result as a page for people."""
    rows = [
        (str(each["seed"]), f"{each['allocation_percent']:.2f} %", f"{each['seconds']:.2f} s")
        for each in document["seeds"]
    ]
    rows.append(("mean", f"{document['allocation_percent_mean']:.2f} %", ""))
    nodes, gpus = pluralize(document["nodes"], "node"), pluralize(document["gpus"], "accelerator")
    head = f"{document['policy']} on {nodes} with {gpus}"
    return Page.of(head, "", Table.of(("SEED", "ALLOCATED", "TIME"), rows))


def _percents(bar: Progress, seed: int) -> Callable[[float], None]:
    """Return a callback that takes the progress of a seed's run, from 0 to 1."""
    return lambda part: bar.update(round(100 * part), 100, f"% of seed {seed}")
