"""The daemons of one node: started, watched, brought back when they were killed, ended.

Each has a folder of its own, whose `pipe` is mounted into containers. A folder is never made again while a
container may have it: so it stays while the daemon does not live, until the agent stops the daemon. The file
`limit.json` in it lets the next program bring the daemon back.
"""

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fairlead.enforcement import COUNT_LIMIT
from fairlead.enforcement.request import IDENTITY, Limit, parse_request
from fairlead.errors import UserError
from fairlead.limiter.mps import PROGRAM, MpsFolder, daemon_variables
from fairlead.limiter.mps_daemon import MpsDaemon
from fairlead.warden import folders

Say = Callable[[str], None]

_MODE: Final = 0o755
"""A client of any user enters `pipe`; the folder above all of them is closed."""
_RECORD: Final = "limit.json"
_RECORD_LIMIT: Final = 16 * 1024
_LOG_LIMIT: Final = 1 << 20
"""Bytes of a log, which lies in the node's memory: each client adds lines."""
_LOGS: Final = ("control.log", "server.log")
_PERIOD: Final = 0.5
"""Seconds between two looks at the daemons: clients of a killed one fail within that time anyway."""
_LONGEST_PAUSE: Final = 30.0


@dataclass(slots=True)
class _Kept:
    """A daemon that must live."""

    limit: Limit
    daemon: MpsDaemon
    failures: int = 0
    retry_at: float = 0.0


class MpsDaemons:
    """The daemons below one folder."""

    def __init__(self, folder: str, program: str, say: Say, most: int = COUNT_LIMIT) -> None:
        self._folder = folder
        self._program = program
        self._say = say
        self._most = most
        self._kept: dict[str, _Kept] = {}
        self._look_at = 0.0

    def resume(self) -> None:
        """Bring back the daemons of an earlier program."""
        for name in self._names():
            with suppress(OSError):
                record = folders.read(f"{self._folder}/{name}/{_RECORD}", _RECORD_LIMIT)
                limit = parse_request(record or b"")
                if isinstance(limit, Limit) and limit.identity == name and (fault := self.start(limit)):
                    self._say(f"{name}: not brought back yet: {fault}")

    def start(self, limit: Limit) -> str:
        """Have a daemon for a limit; return why there is none, empty where it lives.

        One that lives with another limit is replaced: its folder has a new container.
        """
        if not self._program:
            return f"{PROGRAM} is not in the limiter's container; run it with NVIDIA's runtime"
        kept = self._kept.get(limit.identity)
        if kept and kept.limit == limit and kept.daemon.is_alive():
            return ""
        if kept:
            kept.daemon.quit()
        elif len(self._kept) >= self._most:
            return f"there are {len(self._kept)} daemons already, at most {self._most}"
        try:
            folder = self._make_folder(limit)
        except OSError as error:
            return f"{self._folder}/{limit.identity}: {error.strerror}"
        kept = self._kept[limit.identity] = _Kept(limit, MpsDaemon(folder, self._program))
        fault = self._launch(kept)
        if not fault:
            self._say(f"{limit.identity}: started for {', '.join(limit.devices)}, {_text(limit)}")
        return fault

    def stop(self, identity: str) -> bool:
        """End a daemon and remove its folder; say whether there was one."""
        folder = f"{self._folder}/{identity}"
        kept = self._kept.pop(identity, None)
        daemon = kept.daemon if kept else MpsDaemon(MpsFolder(folder), self._program)
        if not daemon.quit():
            self._say(f"{identity}: the daemon does not end")
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
            self._say(f"{identity}: stopped")
            return True
        return kept is not None

    def alive(self) -> Mapping[str, bool]:
        """Return whether each daemon lives, also those of which only a folder is left."""
        kept = self._kept
        return {name: name in kept and kept[name].daemon.is_alive() for name in self._names()}

    def close(self) -> None:
        """End every daemon; the folders stay for the next program."""
        for kept in self._kept.values():
            kept.daemon.quit()

    def deadline(self) -> float | None:
        """Return when to look at the daemons next; None without any."""
        return self._look_at if self._kept else None

    def expire(self, now: float) -> None:
        """Bring back the daemons that were killed, if a look is due."""
        if not self._kept or now < self._look_at:
            return
        self._look_at = now + _PERIOD
        _reap()
        for identity, kept in self._kept.items():
            _shorten_logs(kept.daemon.folder)
            if kept.retry_at <= now and not kept.daemon.is_alive():
                self._bring_back(identity, kept, now)

    def _bring_back(self, identity: str, kept: _Kept, now: float) -> None:
        fault = self._launch(kept)
        kept.failures = kept.failures + 1 if fault else 0
        pause = min(_PERIOD * 2**kept.failures, _LONGEST_PAUSE)
        kept.retry_at = now + pause if fault else 0.0
        self._say(f"{identity}: cannot be brought back: {fault}" if fault else f"{identity}: brought back")

    def _launch(self, kept: _Kept) -> str:
        """Start a daemon, and make the limits its defaults: a client can lower them and not raise them."""
        limit, daemon = kept.limit, kept.daemon
        variables = daemon_variables(daemon.folder, ",".join(limit.devices))
        # One server for all users: without it, the daemon would need the right to become the client's user.
        fault = daemon.start(variables, arguments=("-M",))
        if fault:
            return fault
        for number in range(len(limit.devices)):
            daemon.send(f"set_default_device_pinned_mem_limit {number} {limit.memory}M")
        if limit.percent is not None:
            daemon.send(f"set_default_active_thread_percentage {limit.percent}")
        return ""

    def _names(self) -> list[str]:
        try:
            return sorted(filter(IDENTITY.fullmatch, os.listdir(self._folder)))
        except OSError as error:
            raise UserError(f"{self._folder}: {error.strerror}", "mount a folder of the node there") from None

    def _make_folder(self, limit: Limit) -> MpsFolder:
        folder = MpsFolder(f"{self._folder}/{limit.identity}")
        for path in (folder.path, folder.pipe, folder.log):
            with suppress(FileExistsError):
                os.mkdir(path)
            if not stat.S_ISDIR(os.stat(path, follow_symlinks=False).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            os.chmod(path, _MODE)
        with folders.folder(folder.path) as place:
            folders.write(place, _RECORD, json.dumps(limit.to_json()).encode("ascii"))
        return folder


def _reap() -> None:
    """Reap daemons that ended: in a container this program is their parent, by its pid 1."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _shorten_logs(folder: MpsFolder) -> None:
    for name in _LOGS:
        path = os.path.join(folder.log, name)
        with suppress(OSError):
            if os.stat(path, follow_symlinks=False).st_size > _LOG_LIMIT:
                os.truncate(path, 0)


def _text(limit: Limit) -> str:
    compute = "" if limit.percent is None else f" and {limit.percent} % of the multiprocessors"
    return f"{limit.memory} MiB{compute}"
