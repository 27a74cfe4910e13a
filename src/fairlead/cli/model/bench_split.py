"""`fairlead bench split`: one job among workers of fixed rates, beside its ideal makespan."""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.show import show
from fairlead.cli.shell import options as shared

if TYPE_CHECKING:
    from fairlead.splitbench.plan import SplitPlan


def add(verbs: Any) -> None:
    """Add the verb to `fairlead bench`."""
    command = verbs.add_parser(
        "split",
        help="split one job among workers of fixed rates, and compare the makespan with the ideal",
        description="Start a store with its coordinator and one process for each worker, which does inputs "
        "at an exact rate; split a job among them over real sockets, compare the makespan with the shortest "
        "that their rates allow, and every result with its input. The coordinator does not know the rates.",
    )
    command.add_argument(
        "--rates", metavar="R:R[:...]", default="1:37",
        help="the rates of the workers, relative to one another; the last is the server (default: 1:37)",
    )  # fmt: skip
    command.add_argument("--inputs", metavar="N", type=int, default=2000, help="inputs (default: 2000)")
    command.add_argument(
        "--seconds", metavar="S", type=float, default=10.0, help="the ideal makespan (default: 10)"
    )
    command.add_argument(
        "--link", metavar="BYTES/S", help="the rate of the devices' link, over which they fetch their inputs"
    )
    command.add_argument(
        "--event", metavar="KIND@P%",
        help="device-slows (to 0.3), server-halves or device-lost (killed), once P %% of the inputs have "
        "results",
    )  # fmt: skip
    command.add_argument(
        "--rule", metavar="NAME", default="adaptive",
        help="how inputs are handed out: adaptive, or to compare: halves, proportional, guided, factoring, "
        "stealing (default: adaptive)",
    )  # fmt: skip
    command.add_argument("--size", metavar="SIZE", help="bytes of an input (default: 32, or by the link)")
    command.add_argument("--seed", metavar="S", type=int, default=0, help="of the contents (default: 0)")
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure once; exit code 1: a result is lost or doubled."""
    from fairlead.splitbench.measure import measure

    plan = plan_of(options)
    with tempfile.TemporaryDirectory(prefix="fairlead-split-") as folder:
        document = measure(plan, folder, lambda line: print(line, file=sys.stderr))
    if options.output == "table":
        print(_text(plan, document))
    else:
        show(document, options.output)
    return 1 if document["lost"] or document["doubled"] else 0


def plan_of(options: argparse.Namespace) -> "SplitPlan":
    """Return the plan that the options state."""
    from fairlead.splitbench.plan import SplitPlan, check, parse_event, parse_rates
    from fairlead.units import parse_bytes

    return check(
        SplitPlan(
            parse_rates(options.rates),
            options.inputs,
            options.seconds,
            None if options.link is None else _link(options.link),
            None if options.event is None else parse_event(options.event),
            options.rule,
            options.seed,
            None if options.size is None else int(parse_bytes(options.size)),
        )
    )


def _link(text: str) -> float:
    from fairlead.units import parse_bytes

    try:
        return float(text)
    except ValueError:
        return float(parse_bytes(text.removesuffix("/s").removesuffix("B")))


def _text(plan: "SplitPlan", document: Mapping[str, Any]) -> str:
    rates = ", ".join(f"{name} {rate:.3g}/s" for name, rate in zip(plan.names, plan.rates, strict=True))
    lines = [
        f"{document['inputs']} inputs: {rates}",
        f"makespan {document['makespan_s']:.3f} s, {100 * document['over']:+.2f} % of the ideal "
        f"{document['ideal_s']:.3f} s; {100 * document['device_share']:.1f} % by devices",
        f"{document['results']} right results, {document['lost']} lost, {document['doubled']} doubled",
    ]
    return "\n".join(lines)
