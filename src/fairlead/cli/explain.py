"""`fairlead explain`: why a pod went where it went, or why it has no place."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.cli.output import FORMATS, show, to_table


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "explain",
        help="say why a pod has its place, or none",
        description="Explain a decision that `fairlead schedule -o json` wrote: each reason with its count, "
        "and the smallest change that would fit. Exits 1 where what is explained is a refusal.",
    )
    command.add_argument(
        "pod", metavar="POD", nargs="?", help="a name, or namespace/name, or a controller's (default: all)"
    )
    command.add_argument(
        "--decision", metavar="FILE", required=True, help="what schedule wrote; - is the standard input"
    )
    command.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also each accelerator, where schedule was run with --explain",
    )
    command.add_argument("-o", "--output", choices=FORMATS, default="table", help="how to print it")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.manifest.text import read_one
    from fairlead.whatif import document as decisions

    where, value = read_one(options.decision)
    found = decisions.parse(value, where)
    if options.pod is not None:
        found = decisions.named(found, options.pod, where)
    if options.output == "table":
        print("\n\n".join(text(each, verbose=options.verbose) for each in found) or "nothing was decided")
    else:
        show(found, options.output)
    return 0 if all(each["placed"] for each in found) else 1


def text(decision: Mapping[str, Any], *, verbose: bool) -> str:
    """Return one decision for people."""
    lines = [f"{decision['namespace']}/{decision['name']}: {_headline(decision)}"]
    lines += [f"  {each}" for each in _reasons(decision)]
    changes = [str(each.get("text", "")) for each in decision["changes"] if isinstance(each, dict)]
    if changes:
        lines.append("  would fit with one of these changes, the smallest first:")
        lines += [f"    {each}" for each in changes]
    if verbose:
        lines += [f"  {line}" for line in _devices(decision.get("devices"))]
    return "\n".join(lines)


def _headline(decision: Mapping[str, Any]) -> str:
    """Return the sentence without what the lines below say again."""
    sentence = str(decision["sentence"])
    return sentence.partition("; smallest change")[0] if decision["changes"] else sentence


def _reasons(decision: Mapping[str, Any]) -> Iterable[str]:
    for each in decision["rejections"]:
        if isinstance(each, dict) and each.get("count"):
            nodes = each.get("nodes") or 0
            where = f" on {nodes} node{'' if nodes == 1 else 's'}" if nodes else ""
            yield f"{each['count']:>5} {each.get('text', '')}{where} [{each.get('reason', '')}]"


def _devices(listed: object) -> list[str]:
    if not isinstance(listed, list) or not listed:
        return []
    rows = [
        tuple(str(each.get(key, "")) or "-" for key in ("node", "device", "model", "text"))
        for each in listed
        if isinstance(each, dict)
    ]
    return to_table(("NODE", "DEVICE", "MODEL", "WHY NOT"), rows).splitlines()
