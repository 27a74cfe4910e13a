"""What `fairlead pipeline run` shows while and after it runs: status, metrics, trace, a line, a summary."""

import argparse
import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.live.line import UpdatedLine
from fairlead.cli.output.show import show, to_table
from fairlead.cli.output.terminal import show_error
from fairlead.cli.pipeline.hosts import tls_files
from fairlead.cli.pipeline.pages import RunPages, serve_pages
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError
from fairlead.units import format_duration, pluralize

if TYPE_CHECKING:
    from fairlead.pipeline.fuse import RunPlan
    from fairlead.pipeline.link.certificate_clock import CertificateClock
    from fairlead.pipeline.observe.trace_file import TraceFile

_COUNTS: Final = ("EDGE", "POLICY", "SENT", "TAKEN", "DROPPED")
_ENDS: Final = ("source", "sink")
_EVERY: Final = 100
_PERIOD: Final = 0.5
"""Seconds between two texts of the updated line."""


def add_run_options(command: argparse.ArgumentParser) -> None:
    """Add the options of what a run shows."""
    command.add_argument(
        "-q", "--quiet", action="store_true", help="print neither the updated line nor the summary"
    )
    command.add_argument(
        "--metrics",
        metavar="ADDR:PORT",
        help="serve Prometheus metrics at /metrics, and /healthz and /readyz; a PORT alone is on 127.0.0.1, "
        "0 is any free port",
    )
    command.add_argument(
        "--trace",
        metavar="FILE",
        help="write the spans of every n-th frame: OTLP/JSON lines, which Jaeger opens, or trace events for "
        "Perfetto if FILE ends in .perfetto.json",
    )
    command.add_argument(
        "--trace-every",
        metavar="N",
        type=int,
        default=_EVERY,
        help="of how many frames of a source one is traced (default: %(default)s)",
    )
    shared.add_output(command)


class RunOutput:
    """Everything that a run shows, as long as the context lasts."""

    def __init__(self, options: argparse.Namespace, plan: "RunPlan") -> None:
        """Check the options; SettingsError where they cannot be followed."""
        from fairlead.pipeline.observe.runs import RunPublisher

        sinks = [stage.name for stage in plan.spec.stages if (stage.role, stage.target) == ("sink", "stdout")]
        if options.output != "table" and sinks:
            raise SettingsError(
                f"-o {options.output}: sink {sinks[0]} writes to the standard output as well",
                "leave out -o, or let the sink write to a file with sink: jsonl",
            )
        if options.trace_every < 1:
            raise SettingsError(f"--trace-every {options.trace_every}: write a number from 1 on")
        self._options = options
        self._pipeline = plan.spec.name
        self._certificate = _certificate(options)
        self._line = UpdatedLine(sys.stderr)
        self._next = 0.0
        self._publisher = RunPublisher(os.environ)
        self._pages = RunPages(lambda: self._publisher.latest)
        self._stack = ExitStack()
        self.trace: TraceFile | None = None

    def __enter__(self) -> "RunOutput":
        from fairlead.pipeline.observe.trace_file import TraceFile

        with ExitStack() as stack:
            if self._options.trace:
                trace = TraceFile(self._options.trace, self._options.trace_every, self._pipeline)
                stack.callback(trace.close)
                self.trace = trace
            if self._options.metrics is not None:
                serve_pages(stack, "--metrics", self._options.metrics, self._pages, "metrics")
            stack.enter_context(self._publisher)
            stack.callback(self._line.clear)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def log(self, line: str) -> None:
        """Print a line for people; the updated line is drawn again below it."""
        self._line.clear()
        show_error(f"fairlead: {line}")

    def on_status(self, status: dict[str, Any]) -> None:
        """Take the counters."""
        ends = {} if self._certificate is None else {"certificate_ends": self._certificate.ends()}
        self._publisher.update(status | ends)
        self._pages.on_status()
        if self._line.is_live and not self._options.quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PERIOD
            self._line.draw(progress_text(status)[: max(0, self._line.width - 1)])

    def finish(self, status: Mapping[str, Any]) -> None:
        """Print the summary of a run that is done, or its counters as a document."""
        from fairlead.pipeline.observe.histogram import without_buckets

        self._line.clear()
        if self._options.output != "table":
            show(without_buckets(status), self._options.output)
        elif not self._options.quiet:
            print(summary(status), file=sys.stderr)
        if self.trace is not None and self.trace.left_out:
            self.log(f"--trace: {pluralize(self.trace.left_out, 'span')} left out: there were too many")


def _certificate(options: argparse.Namespace) -> "CertificateClock | None":
    """Return what reads the end of this machine's certificate; None: the run has no certificates."""
    files = tls_files(options)
    if files is None:
        return None
    from fairlead.pipeline.link.certificate_clock import CertificateClock

    return CertificateClock(files)


def progress_text(status: Mapping[str, Any]) -> str:
    """Return one line: what sinks have taken and how fast, what was dropped, and what limits the run."""
    sinks = [each for each in status["stages"] if each["role"] == "sink"]
    dropped = sum(sum(edge["dropped"].values()) for edge in status["edges"])
    rate = sum(each["rate"] for each in sinks)
    text = f"{status['pipeline']}: {pluralize(sum(each['out'] for each in sinks), 'frame')}, {rate:.1f}/s"
    text += f", {dropped} dropped" if dropped else ""
    restarts = sum(each["restarts"] for each in status["stages"])
    text += f", {pluralize(restarts, 'restart')}" if restarts else ""
    return text + (f", bottleneck {status['bottleneck']}" if status["bottleneck"] else "")


def summary(status: Mapping[str, Any]) -> str:
    """Return what the run has done, one line for each stage that matters and each edge between processes."""
    ends = [f"{each['name']}: {_frames(each)}" for each in status["stages"] if each["role"] in _ENDS]
    restarts = sum(each["restarts"] for each in status["stages"])
    head = f"{status['pipeline']}: done in {format_duration(status['seconds'])}; {'; '.join(ends)}"
    if restarts:
        head += f"; {pluralize(restarts, 'restart')}"
    rows = [
        (
            f"{edge['from']}->{edge['to']}",
            edge["policy"],
            str(edge["sent"]),
            str(edge["taken"]),
            ", ".join(f"{number} {reason}" for reason, number in edge["dropped"].items()) or "0",
        )
        for edge in status["edges"]
    ]
    return f"{to_table(_COUNTS, rows)}\n{head}" if rows else head


def _frames(stage: Mapping[str, Any]) -> str:
    failed = f", {stage['failed']} failed" if stage["failed"] else ""
    dropped = "".join(f", {number} dropped by {reason}" for reason, number in stage["dropped"].items())
    return f"{pluralize(stage['out'], 'frame')}{failed}{dropped}"
