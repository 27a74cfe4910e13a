"""`fairlead pipeline top`: the graph of a running pipeline, live in a terminal."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.terminal import Screen
from fairlead.cli.pipeline import top_cluster
from fairlead.cli.shell import options as shared
from fairlead.cli.shell import resources
from fairlead.errors import SettingsError
from fairlead.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairlead.cli.live.loop import KeyEffect
    from fairlead.cli.live.paint import Glyphs, StyledLine
    from fairlead.cli.live.terminal import Size

_PERIOD: Final = "1s"
_RUNS: Final = ("PIPELINE", "PID", "TIME", "FRAMES", "FILE")
Document = Mapping[str, Any]


def add(verbs: Any) -> None:
    """Add the verb to `fairlead pipeline`."""
    command = verbs.add_parser(
        "top",
        help="show a running pipeline, live",
        description="Show the stages and edges of a running pipeline of yours, live: rates, busy shares and "
        "times, queue depths, ages and drops; the stage that limits the others is marked. Keys sort and "
        "pause; h lists them. If several pipelines run and none is named, they are listed. With a namespace, "
        "a kubeconfig or a context, show a pipeline of a cluster.",
    )
    command.add_argument(
        "name", metavar="FILE|NAME|PID", nargs="?", default="", help="which run, if there are several"
    )
    command.add_argument(
        "--once", action="store_true", help="print one frame as text; also what a pipe or TERM=dumb gets"
    )
    command.add_argument(
        "-d",
        "--delay",
        metavar="TIME",
        default=_PERIOD,
        help="the time between two readings (default: %(default)s)",
    )
    resources.add_cluster(command)
    shared.add_output(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    from fairlead.cli.live.screen import parse_delay
    from fairlead.pipeline.observe.runs import find_runs

    period = parse_delay(options.delay)
    if top_cluster.is_of_a_cluster(options):
        return _show(*top_cluster.open_run(options), period, options)
    runs = find_runs(os.environ)
    chosen = [each for each in runs if not options.name or is_named(each[1], options.name)]
    if not chosen:
        raise _no_run(options.name, [status for _, status in runs])
    if len(chosen) > 1:
        return _list_runs([status for _, status in chosen], options)
    ((socket, status),) = chosen
    return _show(status, socket.read, period, options)


def _show(
    status: Document, read: Callable[[], Document | None], period: float, options: argparse.Namespace
) -> int:
    """Show a run: once, or live."""
    from fairlead.cli.live.screen import is_live
    from fairlead.pipeline.observe.histogram import without_buckets

    if options.output != "table":
        show(without_buckets(status), options.output)
        return 0
    if options.once or not is_live():
        return _print_once(status, options.color)
    return _run_live(read, status, period, options.color)


def is_named(status: Document, name: str) -> bool:
    """Return whether a run is meant by the name of its pipeline, its file or its process."""
    file = str(status["file"])
    same_file = bool(file) and os.path.realpath(file) == os.path.realpath(name)
    return name in (status["pipeline"], str(status["pid"])) or same_file


class GraphView:
    """One `fairlead pipeline top`."""

    def __init__(self, read: Callable[[], Document | None], status: Document) -> None:
        from fairlead.cli.pipeline.graph_frame import GraphControls

        self._read = read
        self._status = status
        self._controls = GraphControls()
        self._over = False

    def lines(self, size: "Size", glyphs: "Glyphs") -> "Iterable[StyledLine]":
        """Return one frame."""
        from fairlead.cli.pipeline.graph_frame import graph_frame

        return graph_frame(self._status, size, self._controls, glyphs)

    def press(self, key: str) -> "KeyEffect":
        """Act on a key."""
        from fairlead.cli.pipeline.graph_frame import press

        lines = sum(len(self._status[part]) for part in ("stages", "edges", "fused"))
        self._controls, effect = press(self._controls, key, lines)
        return effect

    def refresh(self) -> None:
        """Read the status, unless it is paused; a run that does not answer now keeps its last one."""
        with suppress(OSError):
            status = self._read()
            self._over = status is None
            if status and not self._controls.paused:
                self._status = status

    def is_over(self) -> bool:
        """Return whether the run has ended."""
        return self._over


def _run_live(read: Callable[[], Document | None], status: Document, period: float, color: str) -> int:
    from fairlead.cli.live.screen import run_view

    view = GraphView(read, status)
    code = run_view(view, period, color)
    if view.is_over():
        print(f"{status['pipeline']}: the run has ended")
    return code


def _print_once(status: Document, color: str) -> int:
    from fairlead.cli.live.escapes import glyphs_for
    from fairlead.cli.live.screen import print_lines
    from fairlead.cli.pipeline.graph_frame import text_lines

    print_lines(text_lines(status, glyphs_for(os.environ)), Screen.of(sys.stdout, os.environ, color))
    return 0


def _list_runs(statuses: Sequence[Document], options: argparse.Namespace) -> int:
    if options.output != "table":
        pids = ", ".join(str(each["pid"]) for each in statuses)
        raise SettingsError(f"{len(statuses)} pipelines run", f"name one by its process id: {pids}")
    rows = [
        (
            each["pipeline"],
            str(each["pid"]),
            format_duration(each["seconds"]),
            str(sum(stage["out"] for stage in each["stages"] if stage["role"] == "sink")),
            each["file"] or "-",
        )
        for each in statuses
    ]
    show_list(_RUNS, rows, "table", headers=True, color=options.color)
    return 0


def _no_run(name: str, statuses: Sequence[Document]) -> SettingsError:
    if not name or not statuses:
        return SettingsError("no pipeline of yours is running", "start one: fairlead pipeline run FILE")
    known = ", ".join(f"{each['pipeline']} ({each['pid']})" for each in statuses)
    return SettingsError(f"{name}: no pipeline of yours with this name, file or process", f"running: {known}")
