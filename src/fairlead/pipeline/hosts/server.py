"""`fairlead pipeline worker`: the runs of one host, which coordinators start over one port."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from fairlead import __version__
from fairlead.pipeline.frame import FrameError
from fairlead.pipeline.hosts.messages import CHECK, CONTROL
from fairlead.pipeline.hosts.probe import load_apart
from fairlead.pipeline.hosts.run import HostRun
from fairlead.pipeline.hosts.settings import HostSettings
from fairlead.pipeline.link.dial import serve_session
from fairlead.pipeline.link.gateway import LINK
from fairlead.pipeline.link.rpc import Message, Received, StreamRefusedError
from fairlead.pipeline.link.rpc_server import RpcServer, ServerStream
from fairlead.pipeline.link.wire import PROTOCOL, Hello, decode, encode
from fairlead.pipeline.profile.messages import PROFILE
from fairlead.pipeline.profile.serve import ProfileService
from fairlead.targets import LoadError

MOST_RUNS: Final = 64


class HostServer:
    """A host that takes runs."""

    def __init__(self, settings: HostSettings, log: Callable[[str], None]) -> None:
        self._settings = settings
        self._log = log
        self._runs: dict[str, HostRun] = {}
        self._lock = threading.Condition()
        self._stopping = False
        self._started = False
        self._profiles = ProfileService(settings)
        handlers = {
            CONTROL: self._control,
            LINK: self._link,
            CHECK: self._check,
            PROFILE: self._profile,
        }
        self._rpc = RpcServer(handlers, log)
        self.port = self._rpc.listen(settings.listen, settings.tls)

    def start(self) -> None:
        """Take runs from now on."""
        self._rpc.start()
        self._started = True

    @property
    def is_serving(self) -> bool:
        """Whether coordinators may begin runs here."""
        return self._started and not self._stopping

    def has_free_stream(self) -> bool:
        """Return whether another stream would be served."""
        return self._rpc.has_free_stream()

    def stop(self) -> None:
        """End every run, and serve no longer."""
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
            runs = list(self._runs.values())
        for run in runs:
            run.end()
        self._rpc.stop()

    def counters(self) -> dict[str, int]:
        """Return what was refused, and how many runs there are."""
        return {
            "runs": len(self._runs),
            "refused_connections": self._rpc.refused_connections,
            "refused_streams": self._rpc.refused_streams,
        }

    def _control(self, stream: ServerStream) -> Iterator[Message]:
        first, hello = _read_hello(stream)
        run = self._run_named(str(hello.get("run", "")), hello.get("attempt"))
        run.on_connection(+1)
        try:
            yield from serve_session(run.messages.session, stream, first)
        finally:
            run.on_connection(-1)

    def _run_named(self, name: str, attempt: Any) -> HostRun:
        """Return a run; a name that is not known yet begins one, and so does a later attempt.

        A coordinator that could not reach this host has given up what is here, and starts it again.
        """
        if type(attempt) is not int:
            raise StreamRefusedError("a hello without the attempt of its coordinator")
        with self._lock:
            known = self._runs.get(name)
        if known is not None and (known.messages.session.is_over or known.attempt < attempt):
            known.end()
        with self._lock:
            known = self._runs.get(name)
            if known is not None and known.attempt == attempt:
                return known
            if known is not None:
                raise StreamRefusedError(f"run {name[:80]}: its coordinator has begun it again since")
            if not name or len(name) > 128 or self._stopping or len(self._runs) >= MOST_RUNS:
                raise StreamRefusedError("this host takes no further run")
            settings = self._settings
            run = HostRun(name, attempt, settings, self._log)
            run.counters = self.counters
            self._runs[name] = run
            self._lock.notify_all()
        self._log(f"run {name}: begins")
        run.start(lambda: self._forget(name))
        return run

    def _forget(self, name: str) -> None:
        with self._lock:
            self._runs.pop(name, None)

    def _link(self, stream: ServerStream) -> Iterator[Message]:
        first, hello = _read_hello(stream)
        name = str(hello.get("run", ""))
        with self._lock:  # another host may be faster than the coordinator
            self._lock.wait_for(lambda: self._stopping or name in self._runs, self._settings.patience)
            run = self._runs.get(name)
        if run is None:
            raise StreamRefusedError(f"this host has no run {name[:80]}")
        yield from run.gateway.serve(str(hello.get("session", "")), stream, first)

    def _profile(self, stream: ServerStream) -> Iterator[bytes]:
        _, hello = _read_hello(stream)
        yield from self._profiles.serve(stream, hello)

    def _check(self, stream: ServerStream) -> Iterator[bytes]:
        """Answer which version this is, and whether it can load the stages of a pipeline."""
        _, hello = _read_hello(stream)
        body: dict[str, Any] = {"protocol": PROTOCOL, "version": __version__, "stages": []}
        if hello.get("stages"):
            body["stages"] = _loaded(hello, self._settings.folder)
        yield encode(Hello(body | {"folder": self._settings.folder}))


def _read_hello(stream: ServerStream) -> tuple[Received, dict[str, Any]]:
    first = next(iter(stream), b"")
    try:
        message = decode(first)
    except FrameError as error:
        raise StreamRefusedError(str(error)) from error
    if not isinstance(message, Hello):
        raise StreamRefusedError("a stream that does not begin with a hello")
    if message.body.get("protocol") != PROTOCOL:
        theirs = message.body.get("protocol")
        raise StreamRefusedError(f"protocol {theirs!r}: fairlead {__version__} here speaks {PROTOCOL}")
    return first, message.body


def _loaded(hello: dict[str, Any], folder: str) -> list[dict[str, Any]]:
    try:
        return load_apart(hello["stages"], hello.get("inputs"), folder)
    except LoadError as error:
        raise StreamRefusedError(str(error)) from error
