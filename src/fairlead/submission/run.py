"""JobRun: what this machine does for one job until that ends: feeds it, works on it, fetches results."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from fairlead.errors import FairleadError, JobError, StoreUnavailableError
from fairlead.submission.client import ENDED, JobsClient, Json, StoreDoor
from fairlead.submission.collecting import ResultCollector
from fairlead.submission.feeder import Feeder
from fairlead.submission.follow import FolderFollower
from fairlead.submission.sources import Found, below_folder, from_lines


class MachineWork(Protocol):
    """The work of this machine on the job."""

    error: Exception | None
    """Why it has ended before the job."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """Give back what is unfinished, and end."""


@dataclass(slots=True)
class JobRun:
    """The parts of a run; those that a machine does not have are None."""

    door: StoreDoor
    job: str
    feeder: Feeder | None
    collector: ResultCollector | None
    work: MachineWork | None
    end_inputs: Callable[[], None]
    """Takes no more inputs; those that were found by then are finished."""
    say: Callable[[str], None]
    last: Json | None = None
    """The job as it was seen last."""
    running: Json | None = None
    """The job as it was seen last while it ran: with the rates of its workers."""
    problem: str = ""
    """Why the store is not reached at the moment."""

    def start(self) -> None:
        """Begin."""
        for part in (self.collector, self.feeder, self.work):
            if part is not None:
                part.start()

    def look(self, client: JobsClient) -> bool:
        """Ask how the job is doing; True: it has ended. Raises what has ended a part of the run."""
        for part in (self.feeder, self.collector):
            if part is not None and part.error is not None:
                raise part.error
        try:
            self.last = client.job(self.job)
        except StoreUnavailableError as error:
            self.problem = str(error)
            return False
        self.problem = ""
        self._check_work(self.last["spec"])
        if self.last["state"] not in ENDED:
            self.running = self.last
            return False
        return True

    def _check_work(self, spec: Json) -> None:
        """Go on without this machine's work where others may do all of it."""
        if self.work is None or self.work.error is None:
            return
        error, self.work = self.work.error, None
        if spec.get("policy") == "device" or "pod" not in (spec.get("on") or ("pod",)):
            raise error
        hint = error.hint if isinstance(error, FairleadError) else ""
        self.say(f"this machine only feeds the job: {error}{f'; {hint}' if hint else ''}")

    def finish(self) -> None:
        """Fetch what is left, and end."""
        self._end_work()
        if self.collector is not None:
            self.collector.finish()
            if self.collector.error is not None:
                raise self.collector.error

    def stop(self) -> None:
        """End at once; the job goes on without this machine."""
        self._end_work()
        if self.collector is not None:
            self.collector.stop()

    def _end_work(self) -> None:
        self.end_inputs()
        if self.work is not None:
            self.work.stop()
        if self.feeder is not None:
            self.feeder.stop()


@dataclass(frozen=True, slots=True)
class InputChoice:
    """Where inputs come from."""

    inputs: str
    """A folder, a list of files, or -."""
    base: str
    """The folder that they are in."""
    follow: bool

    @classmethod
    def of(cls, inputs: str, base: str | None, *, follow: bool) -> "InputChoice":
        """Return a choice with absolute paths; JobError for one that makes no sense."""
        is_folder = inputs != "-" and os.path.isdir(inputs)
        if inputs != "-" and not os.path.exists(inputs):
            raise JobError(
                f"{inputs}: there is no such file or folder", "name a folder, a list of files, or -"
            )
        if is_folder and base is not None:
            raise JobError("--base is of a list", "leave it out: the inputs are below their folder")
        if follow and not is_folder:
            raise JobError(
                "--follow takes a folder", "a list from the standard input is read to its end anyway"
            )
        if is_folder:
            return cls(os.path.abspath(inputs), os.path.abspath(inputs), follow)
        if base is not None and not os.path.isdir(base):
            raise JobError(f"{base}: there is no such folder", "name the folder that the files are in")
        return cls(inputs if inputs == "-" else os.path.abspath(inputs), os.path.abspath(base or "."), follow)

    def check_out(self, out: str) -> None:
        """Raise JobError for a folder of results that would be inputs, or replace them."""
        full = os.path.realpath(out)
        base = os.path.realpath(self.base)
        is_folder = self.inputs == self.base
        if full == base or (is_folder and full.startswith(base.rstrip(os.sep) + os.sep)):
            raise JobError(
                f"--out {out}: the results would {'replace the' if full == base else 'become'} inputs",
                "choose a folder beside them",
            )

    @contextmanager
    def found(self, lines: Iterable[str]) -> Iterator["tuple[Iterable[Found | None], Callable[[], None]]"]:
        """Yield the inputs, and what ends the following of a folder; `lines` is the standard input."""
        stop, stopper = socket.socketpair()

        def end() -> None:
            with suppress(OSError):
                stopper.send(b"\0")

        with stop, stopper:
            if self.follow:
                yield FolderFollower(self.inputs, stop.fileno()), end
            elif self.inputs == "-":
                yield from_lines(lines, self.base), end
            elif os.path.isdir(self.inputs):
                yield below_folder(self.inputs), end
            else:
                with open(self.inputs, encoding="utf-8", errors="surrogateescape") as file:
                    yield from_lines(file, self.base), end
