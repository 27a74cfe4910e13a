"""WarmProcess: a function or a model in a process of its own; it is started again after a crash."""

import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, Final

from fairlead.errors import JobError

_LINES: Final = 20
"""Lines of the standard error that are kept for the message of a crash."""
_LONGEST_LINE: Final = 2000
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ExecutionFailure:
    """Why one input has no result."""

    exit: int
    """The exit code of the program; minus the number of the signal that ended it."""
    error: str


@dataclass(frozen=True, slots=True)
class WarmSpec:
    """What a warm process calls."""

    kind: str
    """`function` or `model`."""
    target: str
    """`module:function`, `file.py:function`, or the path of a model."""
    folder: str = ""
    """Where modules are looked for first."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of a model."""


class WarmProcess:
    """Works on one input after the other."""

    def __init__(self, spec: WarmSpec, log: Log) -> None:
        self._spec = spec
        self._log = log
        self._child: subprocess.Popen[str] | None = None
        self._errors: threading.Thread | None = None
        self._last: deque[str] = deque(maxlen=_LINES)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process and wait until it is ready; JobError says why it cannot be."""
        body = {name: getattr(self._spec, name) for name in WarmSpec.__slots__}
        words = [
            sys.executable,
            "-m",
            "fairlead.executors",
            json.dumps({**body, "options": dict(body["options"])}),
        ]
        self._last.clear()
        child = subprocess.Popen(  # noqa: S603 - our own program, which runs what the user names
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with self._lock:
            self._child = child
        assert child.stderr is not None
        self._errors = threading.Thread(target=self._pass_on, args=(child.stderr,), daemon=True)
        self._errors.start()
        answer = self._answer(child)
        if "ready" not in answer:
            self._end()
            raise JobError(f"{self._spec.target}: {answer.get('error') or self._last_words()}", _HINT)

    def run(self, source: str, target: str) -> ExecutionFailure | None:
        """Make the result of one input; None: it is made. A process that has ended is started again."""
        if self._child is None:
            self.start()
        child = self._child
        assert child is not None
        assert child.stdin is not None
        with suppress(BrokenPipeError):
            child.stdin.write(f"{json.dumps({'input': source, 'output': target})}\n")
            child.stdin.flush()
        answer = self._answer(child)
        if "done" in answer:
            return None
        if "error" in answer:
            return ExecutionFailure(1, str(answer["error"]))
        code = self._end()
        return ExecutionFailure(code, f"the process ended with {code}: {self._last_words()}")

    def interrupt(self) -> None:
        """Give up the input that is worked on; called from another thread."""
        with self._lock:
            if self._child is not None:
                self._child.kill()

    def close(self) -> None:
        """End the process once it has finished its input."""
        child = self._child
        if child is not None and child.stdin is not None:
            with suppress(BrokenPipeError):
                child.stdin.close()
            self._end()

    def _answer(self, child: "subprocess.Popen[str]") -> dict[str, Any]:
        """Return the next answer; an empty one where the process ended without."""
        assert child.stdout is not None
        line = child.stdout.readline()
        try:
            document = json.loads(line)
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}

    def _end(self) -> int:
        child = self._child
        assert child is not None
        code = child.wait()
        if self._errors is not None:
            self._errors.join()
        with self._lock:
            self._child = None
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return code

    def _pass_on(self, errors: IO[str]) -> None:
        for line in errors:
            shown = line.rstrip("\n")[:_LONGEST_LINE]
            self._last.append(shown)
            self._log(shown)

    def _last_words(self) -> str:
        return next((line for line in reversed(self._last) if line.strip()), "it said nothing")


_HINT: Final = "it must be there on every machine that works on the job: --with FILE takes a file along"
