"""A program as the child of a worker: its start, its handshake, the bytes both ways, and its end."""

import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO, Final

from fairlead.errors import FairleadError
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.programs import launch
from fairlead.pipeline.programs.wire import (
    ControlKind,
    MessageReader,
    ProgramHello,
    ProgramMessage,
    end_views,
    error_text,
    hello_views,
    parse_hello,
)
from fairlead.units import Seconds, format_duration

START: Final = Seconds(10)
"""How long the handshake of a program may take that states no other time."""
_END: Final = 5.0
"""Seconds that a program has after the last frame."""
_LAST_WORDS: Final = 1.0
"""Seconds in which the rest of the standard error is read after the end."""
_PIPE_BYTES: Final = 1 << 20
"""The largest that a user may ask for by default."""
_VIEWS: Final = 64
"""Buffers in one system call."""
_LONGEST_LINE: Final = 2000
USER_PYTHONPATH: Final = "FAIRLEAD_USER_PYTHONPATH"
"""Holds in a worker what PYTHONPATH was before: a program may be another Python."""
Log = Callable[[str], None]


class ProgramError(FairleadError):
    """A program cannot be started, ended too early, or broke the protocol; the message is one line."""


def find_program(word: str, folder: str) -> str:
    """Return the file of a command's first word; with a slash it is a path in the folder of the pipeline."""
    if "/" not in word:
        file = shutil.which(word)
        if file is None:
            hint = "install it, or write ./NAME for a program in the folder of the file"
            raise ProgramError(f"program {word!r} is not found in PATH", hint)
        return file
    path = os.path.join(os.path.abspath(folder or "."), word)
    if not os.path.exists(path):
        raise ProgramError(f"program {path} does not exist", "build it, or correct the path")
    if os.path.isdir(path):
        raise ProgramError(f"program {path} is a folder", "name the program in it")
    if not os.access(path, os.X_OK):
        raise ProgramError(f"program {path} is not executable", f"chmod +x {path}")
    return path


def probe_program(
    command: Sequence[str], folder: str, stage: str, inputs: int, start: Seconds
) -> ProgramHello:
    """Return the hello of a program: it is started for its handshake alone."""
    program = ProgramProcess(command, folder, lambda line: None)
    try:
        return program.greet(stage, inputs, 1, start)
    finally:
        program.end()


class ProgramProcess:
    """A running program; the caller waits for its descriptors, and calls `write` and `read` then."""

    def __init__(self, command: Sequence[str], folder: str, log: Log) -> None:
        """Start a program in a folder; `log` takes the lines of its standard error, in a thread."""
        file = find_program(command[0], folder)
        start = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), file, *command]
        self._child = subprocess.Popen(  # noqa: S603 - the program that the user names
            start,
            cwd=folder or None,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        stdin, stdout, errors = self._child.stdin, self._child.stdout, self._child.stderr
        assert stdin is not None
        assert stdout is not None
        assert errors is not None
        self._ended = os.pidfd_open(self._child.pid)
        self._files = (stdin, stdout)
        self._in, self._out = stdin.fileno(), stdout.fileno()
        for descriptor in (self._in, self._out):
            os.set_blocking(descriptor, False)
            with suppress(OSError):  # the user's share of pipes is used up: smaller ones work as well
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._reader = MessageReader()
        self._unwritten: deque[memoryview] = deque()
        self._fault: ProgramError | None = None
        self._is_killed = False
        self._last_line = ""
        self._errors = threading.Thread(target=self._pass_on, args=(errors, log), daemon=True)
        self._errors.start()

    def greet(self, stage: str, inputs: int, frames: int, start: Seconds) -> ProgramHello:
        """Exchange hellos; ProgramError where the program does not answer as the protocol says."""
        self.send(hello_views(stage, inputs, frames))
        until = time.monotonic() + start
        while True:
            self.write()
            for message in self.read():
                if message.control is ControlKind.ERROR:
                    raise ProgramError(f"its program says: {error_text(message)}")
                return _hello_of(message)
            writing = [self._in] if self.is_writing else []
            left = until - time.monotonic()
            if left <= 0:
                self.kill()
                raise ProgramError(
                    f"its program sent no hello within {format_duration(start)}",
                    "let it speak the protocol, or raise the option start",
                )
            select.select([self._out], writing, [], left)

    @property
    def is_writing(self) -> bool:
        """Whether bytes wait until the program takes them."""
        return bool(self._unwritten)

    @property
    def reading(self) -> int:
        """The descriptor that is readable when the program has sent something, or has ended."""
        return self._out

    @property
    def writing(self) -> int:
        """The descriptor that is writable when the program takes more bytes."""
        return self._in

    def send(self, views: Sequence[memoryview]) -> None:
        """Add bytes to those that `write` writes; their memory must stay as it is until then."""
        self._unwritten += views

    def write(self) -> None:
        """Write as much as the program takes now."""
        while self._unwritten:
            views = [self._unwritten[index] for index in range(min(_VIEWS, len(self._unwritten)))]
            try:
                count = os.writev(self._in, views)
            except BlockingIOError:
                return
            except OSError:  # it ended: `read` says so after its last message
                self._unwritten.clear()
                return
            while count:
                first = self._unwritten.popleft()
                if count < len(first):
                    self._unwritten.appendleft(first[count:])
                count = max(0, count - len(first))

    def read(self) -> list[ProgramMessage]:
        """Return the messages that have come; ProgramError once there are none and the program has ended."""
        messages: list[ProgramMessage] = []
        while self._fault is None:
            try:
                count = os.readv(self._out, [self._reader.buffer()])
            except BlockingIOError:
                return messages
            try:
                message = self._reader.advance(count)
            except FrameError as error:
                self._fault = ProgramError(f"its program {error}", error.hint)
                break
            if message is not None:
                messages.append(message)
            if not count:
                self._fault = ProgramError(self._how_it_ended())
        if messages:  # what came before the fault counts
            return messages
        self.kill()
        assert self._fault is not None
        raise self._fault

    def end(self) -> None:
        """Say that there are no more frames, and leave nothing of the program behind."""
        if not self._is_killed:
            self.send(end_views())
            until = time.monotonic() + _END
            while self.is_writing and time.monotonic() < until and not self._wait(0):
                select.select([self._ended], [self._in], [], 0.1)
                self.write()
            self._files[0].close()
            self._wait(max(0.0, until - time.monotonic()))
            self.kill()
        for file in self._files:
            file.close()

    def kill(self) -> int:
        """End the program and everything that it has started in its group; return its exit code.

        The descriptors stay open until `end`: another file must not get their numbers meanwhile.
        """
        if not self._is_killed:
            self._is_killed = True
            exited = self._wait(0)
            with suppress(ProcessLookupError):  # not reaped yet: the number of the group is still its own
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            if not exited:
                self._last_line = ""
            self._errors.join(_LAST_WORDS)
            os.close(self._ended)
        return self._child.returncode

    def _wait(self, seconds: float) -> bool:
        """Wait for the end of the program; False: it has not ended."""
        return bool(select.select([self._ended], [], [], seconds)[0])

    def _how_it_ended(self) -> str:
        inside = "" if self._reader.is_between_messages else " inside a message"
        self._wait(_LAST_WORDS)
        code = self.kill()
        how = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
        last = f": {self._last_line}" if self._last_line else ""
        return f"its program ended with {how}{inside}{last}"

    def _pass_on(self, errors: BinaryIO, log: Log) -> None:
        """Run in a thread: hand the lines of the standard error over, each bounded."""
        with errors, suppress(OSError, ValueError):
            rest = b""
            while data := os.read(errors.fileno(), 1 << 16):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > _LONGEST_LINE:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._say(line, log)
            if rest:
                self._say(rest, log)

    def _say(self, line: bytes, log: Log) -> None:
        text = line[:_LONGEST_LINE].decode(errors="replace").rstrip()
        self._last_line = text or self._last_line
        log(text)


def _environment() -> dict[str, str]:
    """Return the environment of a program: that of the run, without the paths of its worker."""
    own = dict(os.environ)
    if USER_PYTHONPATH in own:
        own["PYTHONPATH"] = own.pop(USER_PYTHONPATH)
    if not own.get("PYTHONPATH"):
        own.pop("PYTHONPATH", None)
    return own


def _hello_of(message: ProgramMessage) -> ProgramHello:
    try:
        return parse_hello(message)
    except FrameError as error:
        raise ProgramError(f"its program {error}", error.hint) from None
