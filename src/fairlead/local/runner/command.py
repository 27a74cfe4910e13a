"""The command's own process: forked and held until it is released, then turned into the command by exec."""

import errno
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairlead.local.runner.signals import CallerState

NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR)
_RELEASE: Final = b"x"
_STEPS: Final = ("exec", "cwd", "output")


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """A command that cannot be executed."""

    exit_code: int
    """126: not executable; 127: not found."""
    reason: str
    """One line, for people."""


@dataclass(frozen=True, slots=True)
class CommandLaunch:
    """Everything that the command's process needs."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    cwd: str = ""
    """Empty: the caller's."""
    umask: int | None = None
    output: str = ""
    """The file for its standard output and error; then it gets a session of its own and no input."""


def find_command(argv: Sequence[str], environment: Mapping[str, str], cwd: str = "") -> str | CommandFailure:
    """Return the path of a command as execvp would find it, or why it cannot be executed."""
    name = argv[0]
    failure = CommandFailure(NOT_FOUND, f"no such command: {name}")
    if "/" in name:
        places = [os.path.join(cwd, name) if cwd else name]
    else:
        search = environment.get("PATH", os.defpath).split(os.pathsep)
        places = [os.path.join(cwd, folder or ".", name) for folder in search]
        if os.path.isfile(os.path.join(cwd, name)):
            how = f"to run the file of this name, write its interpreter before it, or ./{name}"
            failure = CommandFailure(NOT_FOUND, f"no such command: {name}; {how}")
    for path in places:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        if os.path.isdir(path) and "/" in name:
            failure = CommandFailure(NOT_EXECUTABLE, f"not a command but a folder: {name}")
        elif os.path.isfile(path):
            how = "write its interpreter before it, or make it executable (chmod +x)"
            failure = CommandFailure(NOT_EXECUTABLE, f"not executable: {name}; {how}")
    return failure


def failure_of(number: int, step: str, launch: CommandLaunch) -> CommandFailure:
    """Return the failure for an errno that the command's process reported."""
    text = os.strerror(number).lower()
    if step == "cwd":
        return CommandFailure(NOT_EXECUTABLE, f"cannot enter the folder {launch.cwd}: {text}")
    if step == "output":
        return CommandFailure(NOT_EXECUTABLE, f"cannot write its output: {text}")
    if number in _ABSENT:
        return CommandFailure(NOT_FOUND, f"no such command, or its interpreter is missing: {launch.argv[0]}")
    return CommandFailure(NOT_EXECUTABLE, f"cannot execute {launch.argv[0]}: {text}")


class HeldCommand:
    """A forked process that becomes the command when it is released, and ends without exec otherwise."""

    def __init__(self, pid: int, hold: int, report: int, launch: CommandLaunch) -> None:
        self.pid = pid
        self._hold = hold
        self._report = report
        self._launch = launch

    def release(self) -> None:
        """Let the process take its start token and execute the command."""
        with suppress(BrokenPipeError):  # it was killed: its parent sees how it ended
            os.write(self._hold, _RELEASE)
        self._close_hold()

    def take_over(self, numbers: Iterable[int]) -> None:
        """Give the held process the signals among `numbers` that wait for this process.

        A signal that the terminal sent before the fork reached this process alone. One that it sent later
        waits for both, and the held process, which blocks it too, gets it once.
        """
        for number in signal.sigpending() & set(numbers):
            if signal.sigtimedwait((number,), 0) is not None:
                os.kill(self.pid, number)

    def abandon(self) -> None:
        """End the process without exec, and reap it."""
        self._close_hold()
        os.close(self._report)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def failure(self) -> CommandFailure | None:
        """Wait until the process has executed the command; return why it could not, or None."""
        data = os.read(self._report, 64)
        os.close(self._report)
        if not data:
            return None
        number, step = data.split(b" ")
        return failure_of(int(number), _STEPS[int(step)], self._launch)

    def _close_hold(self) -> None:
        os.close(self._hold)


def hold_command(
    launch: CommandLaunch,
    path: str,
    caller: CallerState,
    forked: Callable[[], None],
    take_token: Callable[[], bool],
) -> HeldCommand:
    """Fork the command's process; it waits for its release, and ends if this process dies before.

    The handled signals of the caller must be blocked: the process keeps them until the command runs. It calls
    `forked` at once, and `take_token` after its release: False ends it without exec.
    """
    held, hold = os.pipe()  # Python's descriptors close on exec
    report, reported = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        for each in (held, hold, report, reported):
            os.close(each)
        raise
    if pid == 0:
        try:
            os.close(hold)
            os.close(report)
            forked()
            _become(launch, path, caller, take_token, held, reported)
        finally:
            os._exit(NOT_EXECUTABLE)
    os.close(held)
    os.close(reported)
    return HeldCommand(pid, hold, report, launch)


def _become(
    launch: CommandLaunch,
    path: str,
    caller: CallerState,
    take_token: Callable[[], bool],
    held: int,
    reported: int,
) -> None:
    """Wait for the release, then execute the command; return only if that fails."""
    if os.read(held, 1) != _RELEASE or not take_token():
        return
    step = 0
    try:
        if launch.output:
            step = 2
            _detach(launch.output)
        if launch.cwd:
            step = 1
            os.chdir(launch.cwd)
        step = 0
        if launch.umask is not None:
            os.umask(launch.umask)
        caller.restore()
        _execute(path, launch)
    except OSError as error:
        os.write(reported, b"%d %d" % (error.errno or errno.EIO, step))


def _execute(path: str, launch: CommandLaunch) -> None:
    argv, environment = list(launch.argv), dict(launch.environment)
    try:
        os.execve(path, argv, environment)  # noqa: S606  # the user's own command, no shell
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without a first line that names its interpreter is the shell's, as with execvp.
        os.execve("/bin/sh", ["sh", path, *argv[1:]], environment)  # noqa: S606  # likewise


def _detach(output: str) -> None:
    """Leave the caller's session and terminal; write to a file that only its owner reads."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    file = os.open(output, flags, 0o600)
    os.dup2(null, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
