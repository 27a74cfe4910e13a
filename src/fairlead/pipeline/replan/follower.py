"""Follow the file of a run: what it says, whether a run can carry that out, and how far it is.

The file is read by the thread of the run; what takes longer, such as asking hosts, is done in another one.
"""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

from fairlead.errors import PipelineError
from fairlead.pipeline.replan.following import ChangeRefusal
from fairlead.pipeline.spec import PipelineSpec
from fairlead.units import Seconds, format_duration

LOOK: Final = 0.5
"""Seconds from one look at the file to the next; a change counts once two looks agree on it."""
FIRST_RETRY: Final = 2.0
LAST_RETRY: Final = 60.0
"""Seconds until a change that failed is tried again: twice as many after each time."""


@dataclass(frozen=True, slots=True)
class FollowedFile:
    """A pipeline that a run carries out, with the text that it is from."""

    digest: str
    """SHA-256 of the text."""
    spec: PipelineSpec
    """As the text has it."""
    running: PipelineSpec
    """With the ports that its stages have."""


@dataclass(frozen=True, slots=True)
class ChangeFailure:
    """A change that may succeed later: a host does not answer, or cannot load a stage."""

    reason: str


Verdict = FollowedFile | ChangeRefusal | ChangeFailure
Judge = Callable[[FollowedFile, bytes], Verdict]
"""Returns what follows from a new text, in a thread of its own; it may take long."""


def digest_of(data: bytes) -> str:
    """Return the digest by which a text is known."""
    return hashlib.sha256(data).hexdigest()


class FileFollower:
    """The file of one run."""

    def __init__(
        self, file: FollowedFile, read: Callable[[], bytes], judge: Judge, log: Callable[[str], None]
    ) -> None:
        """Take the file that the run begins with; what reads it again, PipelineError where it cannot."""
        self._file = file
        self._read = read
        self._judge = judge
        self._log = log
        self._seen = file.digest
        self._judged = file.digest
        self._wanted: FollowedFile | None = None
        self._pending = ""
        self._failed = ""
        self._moves = False
        self.is_judging = False
        """A change is being checked, in a thread."""
        self._verdicts: SimpleQueue[tuple[str, Verdict]] = SimpleQueue()
        self._look_at = 0.0
        self._retry_at = float("inf")
        self._pause = FIRST_RETRY

    @property
    def wanted(self) -> PipelineSpec | None:
        """The pipeline that the run is to become; None: it is that already, or cannot become it."""
        return None if self._wanted is None or self._moves else self._wanted.running

    def observe(self, now: float) -> None:
        """Read the file if that is due, and take what is known of its last change."""
        while not self._verdicts.empty():
            self.is_judging = False
            self._on_verdict(*self._verdicts.get(), now)
        if now >= self._look_at:
            self._look_at = now + LOOK
            self._look(now)

    def begin(self) -> None:
        """Take note that the run begins to become what is wanted."""
        self._moves = True

    def on_ended(self, *, done: bool, reason: str, now: float) -> None:
        """Take how that has ended; `reason`: why it was given up."""
        self._moves = False
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        if done:
            self._file = wanted
            self._clear()
        else:
            self._fail(reason, now)

    def document(self) -> dict[str, Any]:
        """Return what the status of the run says of the file."""
        return {
            "digest": self._file.digest,
            "seen": self._seen,
            "pending": self._pending,
            "failed": self._failed,
            "moving": self._moves,
        }

    def _look(self, now: float) -> None:
        try:
            data = self._read()
        except PipelineError as error:
            self._refuse(str(error))
            self._judged = ""
            return
        digest = digest_of(data)
        is_settled, self._seen = digest == self._seen, digest
        if self._moves or not is_settled:  # perhaps half of it was written
            return
        if digest == self._file.digest:
            self._wanted = None
            self._judged = digest
            self._clear()
        elif not self.is_judging and (digest != self._judged or now >= self._retry_at):
            self._start_judging(digest, data)

    def _start_judging(self, digest: str, data: bytes) -> None:
        if digest != self._judged:
            self._clear()
        self.is_judging, self._judged = True, digest
        self._wanted, self._retry_at = None, float("inf")
        threading.Thread(target=self._work, args=(digest, data), name="follow", daemon=True).start()

    def _work(self, digest: str, data: bytes) -> None:
        verdict: Verdict = ChangeFailure("it could not be checked")
        try:
            verdict = self._judge(self._file, data)
        finally:
            self._verdicts.put((digest, verdict))

    def _on_verdict(self, digest: str, verdict: Verdict, now: float) -> None:
        if digest != self._seen:  # it has changed again since
            return
        match verdict:
            case FollowedFile():
                self._wanted = verdict
            case ChangeRefusal():
                self._refuse(verdict.reason)
            case ChangeFailure():
                self._fail(verdict.reason, now)

    def _refuse(self, reason: str) -> None:
        if reason != self._pending:
            self._clear()
            self._pending = reason
            what = reason.removeprefix(f"{self._path}: ")
            self._log(f"{self._path} is not followed: {what}; {_LATER}")

    def _fail(self, reason: str, now: float) -> None:
        self._failed = reason
        pause, self._pause = self._pause, min(2 * self._pause, LAST_RETRY)
        self._retry_at = now + pause
        again = format_duration(Seconds(pause))
        self._log(f"{self._path} is not carried out: {reason}; it is tried again in {again}")

    def _clear(self) -> None:
        self._pending = self._failed = ""
        self._retry_at, self._pause = float("inf"), FIRST_RETRY

    @property
    def _path(self) -> str:
        return self._file.spec.path


_LATER: Final = "the run goes on as it is, and what the file says takes effect when it is started again"
