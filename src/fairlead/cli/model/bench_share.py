"""`fairlead bench share`: inference engines on one real GPU, in several arrangements, compared."""

import argparse
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.model.bench_share_plan import names_of, plan_of, usable_limiters
from fairlead.cli.output.picture import check_writable, draw
from fairlead.cli.output.show import show
from fairlead.cli.output.terminal import show_error, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import FairleadError, SettingsError
from fairlead.sharebench.arrangements import LIMITERS, MODES, SAFE, Arrangement, in_rounds

if TYPE_CHECKING:
    from fairlead.sharebench.comparison import Comparison, SharePlan

_MOST_ENGINES: Final = 256
_MOST_QUERIES: Final = 1_000_000
_MOST_ROUNDS: Final = 100


def add(verbs: Any) -> None:
    """Add the verb to `fairlead bench`."""
    command = verbs.add_parser(
        "share",
        help="run inference engines that share this machine's GPU, and compare arrangements",
        description="Run real inference engines as processes on one GPU: each with the whole GPU, a fixed "
        "number at once, by published policies, and by fairlead's own queue; plain and under MPS. A solo run "
        "of each kind of engine comes first: the others are compared with its answers and latencies.",
    )
    _add_run(command)
    _add_output(command)
    command.set_defaults(run=run)


def _add_run(command: argparse.ArgumentParser) -> None:
    """Add the options that say what runs."""
    command.add_argument("--engines", metavar="N", type=int, default=16, help="engines (default: 16)")
    command.add_argument(
        "--queries", metavar="N", type=int, default=1000, help="queries of each engine (default: 1000)"
    )
    command.add_argument(
        "--modes", metavar="NAME[,...]", default=",".join(MODES), help=f"of {', '.join(MODES)} (default: all)"
    )
    command.add_argument(
        "--limiters", metavar="NAME[,...]", default=",".join(LIMITERS), help="plain, mps (default: both)"
    )
    command.add_argument(
        "--enforce",
        action="store_true",
        help="instead: engines that exceed their share, what enforcement costs, and a killed MPS daemon",
    )
    command.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda",
        help="cpu: small networks share the processor (default: cuda)",
    )  # fmt: skip
    command.add_argument(
        "--runtimes", metavar="NAME[,...]", default="torch,onnxruntime",
        help="of torch, onnxruntime; one without CUDA is left out (default: both)",
    )  # fmt: skip
    command.add_argument("--seed", metavar="S", type=int, default=0, help="orders the engines (default: 0)")
    command.add_argument(
        "--rounds", metavar="N", type=int, default=1,
        help="run all arrangements that many times in turn, and compare medians (default: 1)",
    )  # fmt: skip
    command.add_argument(
        "--limit", metavar="SECONDS", type=float, default=300.0,
        help="end an arrangement after this time (default: 300)",
    )  # fmt: skip
    command.add_argument("--engine", help=argparse.SUPPRESS)  # a command that is played instead of an engine


def _add_output(command: argparse.ArgumentParser) -> None:
    command.add_argument("--plot", metavar="FILE", help="also draw the arrangements, as an SVG picture")
    command.add_argument(
        "--out", metavar="FILE", help="also write the JSON document, again after every arrangement"
    )
    command.add_argument(
        "--resume",
        action="store_true",
        help="keep the arrangements that the file of --out has, of the same engines on the same machine",
    )
    shared.add_output(command)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    modes, limiters = (
        names_of("--modes", options.modes, MODES),
        names_of("--limiters", options.limiters, LIMITERS),
    )
    _check(options)
    plan, skipped = plan_of(options)
    limiters = usable_limiters(limiters, skipped) if plan.gpu is not None else limiters
    document = _document(options, plan, skipped)
    if options.resume:
        document["rounds"] = _kept(options.out, document)
    keep = _keeper(options.out, document)
    from fairlead.sharebench.comparison import Comparison

    with tempfile.TemporaryDirectory(prefix="fairlead-share-", ignore_cleanup_errors=True) as folder:
        say = _reporter()
        comparison = Comparison(plan, folder, say)
        for line in skipped:
            say(line)
        try:
            document["solo"] = comparison.profile()
            if options.enforce:
                _enforce(comparison, document, limiters, keep)
            else:
                _compare(comparison, document, in_rounds(modes, limiters, options.rounds), keep)
        finally:
            comparison.close()
    _show(options, document)
    own = [each for each in document["arrangements"] if each["mode"] == SAFE]
    return 1 if any(each["failures"] for each in own) else 0


def _compare(
    comparison: "Comparison",
    document: dict[str, Any],
    turns: Iterable[tuple[int, Arrangement]],
    keep: Callable[[], None],
) -> None:
    from fairlead.sharebench.document import with_ratios
    from fairlead.sharebench.rounds import medians

    rows: list[dict[str, Any]] = document["rounds"]
    known = {(row["round"], row["mode"], row["limiter"]) for row in rows}
    for number, arrangement in turns:
        if (number, arrangement.mode, arrangement.limiter) not in known:
            try:
                rows.append({"round": number, **comparison.run(arrangement)})
            except (FairleadError, OSError, SubprocessError) as error:  # the others can still be compared
                document["skipped"].append(f"{arrangement.name}, round {number}: {error}")
                comparison.report(f"{arrangement.name}, round {number}, is left out: {error}")
        document["arrangements"] = with_ratios(medians(rows))
        keep()


def _enforce(
    comparison: "Comparison", document: dict[str, Any], limiters: Sequence[str], keep: Callable[[], None]
) -> None:
    from fairlead.sharebench.enforce import enforcement

    document["enforcement"] = {}
    for name, result in enforcement(comparison, mps="mps" in limiters):
        document["enforcement"][name] = result
        keep()


def _check(options: argparse.Namespace) -> None:
    if not 1 <= options.engines <= _MOST_ENGINES:
        raise SettingsError(f"--engines {options.engines}: must be from 1 to {_MOST_ENGINES}")
    if not 1 <= options.queries <= _MOST_QUERIES:
        raise SettingsError(f"--queries {options.queries}: must be from 1 to {_MOST_QUERIES}")
    if not 1 <= options.rounds <= _MOST_ROUNDS:
        raise SettingsError(f"--rounds {options.rounds}: must be from 1 to {_MOST_ROUNDS}")
    if options.enforce and options.device == "cpu":
        raise SettingsError("--enforce --device cpu: shares of a GPU are enforced; leave out one of them")
    if options.resume and not options.out:
        raise SettingsError("--resume: name the file of the earlier run; add --out FILE")
    if not 1 <= options.limit <= 86400:
        raise SettingsError(f"--limit {options.limit:g}: must be from 1 to 86400 seconds")
    if options.plot:
        check_writable(options.plot)
    if options.out:
        check_writable(options.out, "--out")


def _document(options: argparse.Namespace, plan: "SharePlan", skipped: Sequence[str]) -> dict[str, Any]:
    from fairlead.sharebench.document import machine_of

    kinds = [
        {"network": each.network, "runtime": each.runtime, "cache_bytes": each.cache} for each in plan.kinds
    ]
    return {
        "command": shlex.join(["fairlead", *sys.argv[1:]]),
        "machine": machine_of(plan.gpu),
        "settings": {
            "engines": len(plan.engines),
            "queries": options.queries,
            "device": options.device,
            "seed": options.seed,
            "kinds": kinds,
        },
        "skipped": list(skipped),
        "solo": {},
        "rounds": [],
        "arrangements": [],
    }


def _kept(path: str, document: dict[str, Any]) -> list[dict[str, Any]]:
    from fairlead.sharebench.document import kept_rounds

    try:
        with open(path, encoding="utf-8") as stream:
            earlier = json.load(stream)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise SettingsError(f"--resume: {path}: cannot be read: {error}", "leave out --resume") from None
    return kept_rounds(earlier, document) if isinstance(earlier, dict) else []


def _keeper(path: str | None, document: dict[str, Any]) -> Callable[[], None]:
    """Return a function that writes the document as it is now."""

    def keep() -> None:
        if path:
            draw(path, json.dumps(document, indent=1) + "\n", "--out")

    return keep


def _show(options: argparse.Namespace, document: dict[str, Any]) -> None:
    if options.output == "table":
        from fairlead.cli.model.bench_share_page import page

        show_page(page(document), options.color)
    else:
        show(document, options.output)
    if options.plot and document["arrangements"]:
        from fairlead.sharebench.plot import svg

        draw(options.plot, svg(document))


def _reporter() -> Callable[[str], None]:
    """Return a function that prints a line with the seconds since now."""
    began = time.monotonic()
    return lambda text: show_error(f"fairlead: bench share: {time.monotonic() - began:.0f} s: {text}")
