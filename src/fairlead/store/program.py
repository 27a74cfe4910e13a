"""The store as a program: check, lock the folder, serve until SIGTERM or SIGINT."""

import ctypes
import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Final

from fairlead.errors import SettingsError
from fairlead.serve.web.httpd import listen
from fairlead.serve.web.thread import serve_in_thread
from fairlead.serve.web.tls import server_tls
from fairlead.settings import Address
from fairlead.signals import stop_signals
from fairlead.store.application import StoreApplication
from fairlead.store.contents import Contents
from fairlead.store.credentials import AnyOf, Credentials, TokenFile
from fairlead.store.dav.application import DavApplication
from fairlead.store.disk import PosixDisk
from fairlead.store.freeze import WriteFreeze
from fairlead.store.housekeeper import Housekeeper
from fairlead.store.http.metrics import StorePages
from fairlead.store.http.rate import RateLimit
from fairlead.store.http.server import StoreServer
from fairlead.store.jail import Jail
from fairlead.store.jobs.handler import JobsHandler
from fairlead.store.join.handler import DeviceCredentials, JoinHandler, open_protocol, session_key
from fairlead.store.join.registry import DeviceRegistry
from fairlead.store.parts import PartialUploads
from fairlead.store.properties import Properties
from fairlead.store.quota import Account, QuotaFile
from fairlead.store.reserved import ReservedPaths
from fairlead.store.settings import StoreSettings
from fairlead.store.trace import AccessTrace
from fairlead.store.uploads import Staging

_ARENA_MAX: Final = -8
"""M_ARENA_MAX of malloc.h."""


def run(settings: StoreSettings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT."""
    _limit_arenas()
    with stop_signals() as stop, serving(settings, say) as url:
        _announce(url, say)
        stop.recv(1)
    say("stopped")


def _limit_arenas() -> None:
    """Let glibc keep two heaps, and not one for each of many threads: a tenth of the memory, at no cost."""
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


@contextmanager
def serving(settings: StoreSettings, say: Callable[[str], None]) -> Iterator[str]:
    """Serve while the block runs; yield the store's URL once it listens."""
    check(settings)
    jail = Jail(settings.root, settings.files.also)
    with _folder_lock(jail, settings.lock_wait), ExitStack() as stack:
        contents = open_contents(settings, jail, say)
        state = settings.files.state or f"{jail.own}/state"
        os.makedirs(state, mode=0o700, exist_ok=True)
        properties = stack.enter_context(closing(Properties(f"{state}/properties.sqlite")))
        credentials, reserved = _reserved(settings, state, contents, say, stack)
        parts = PartialUploads(contents)
        application = StoreApplication(
            contents,
            parts,
            DavApplication(contents, properties),
            credentials,
            RateLimit(settings.rate),
            say,
            threading.Semaphore(settings.limits.uploads),
            reserved,
        )
        tls = server_tls(settings.tls, "", say) if settings.tls else None
        server = StoreServer(listen(settings.listen), application, tls, settings.limits, say)
        stack.enter_context(Housekeeper(contents, parts, say))
        if settings.metrics is not None:
            stack.enter_context(_metrics(settings.metrics, server, contents, say))
        stack.enter_context(_served(server))
        yield f"{'https' if settings.tls else 'http'}://{server.address}/"


def _reserved(
    settings: StoreSettings, state: str, contents: Contents, say: Callable[[str], None], stack: ExitStack
) -> tuple[Credentials, ReservedPaths]:
    """Return what accepts secrets, and what answers below the reserved path."""
    files = settings.files
    accepted: list[Credentials] = [TokenFile(settings.token_file, say)]
    join = key = None
    if files.invite_key:
        registry, key = DeviceRegistry(state, say), session_key(files.invite_key, say)
        accepted.append(DeviceCredentials(registry))
        join = JoinHandler(open_protocol(registry, key, contents, files.session), contents.freeze)
    credentials = AnyOf(accepted)
    waiters = settings.limits.threads // 2
    jobs = stack.enter_context(
        closing(JobsHandler(contents, state, credentials, say, key=key, waiters=waiters))
    )
    return credentials, ReservedPaths(jobs, join, credentials)


@contextmanager
def _metrics(
    address: Address, server: StoreServer, contents: Contents, say: Callable[[str], None]
) -> Iterator[None]:
    """Serve the metrics at an address of their own."""
    pages = StorePages(
        server.counters,
        contents.account.usage,
        lambda: server.open_connections,
        lambda: contents.freeze.reason,
    )
    with serve_in_thread(address, pages) as where:
        say(f"metrics on http://{where}/metrics")
        yield


@contextmanager
def _served(server: StoreServer) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop()


def check(settings: StoreSettings) -> None:
    """Raise SettingsError for settings that cannot be served."""
    if settings.tls is None and not settings.listen.loopback:
        raise SettingsError(
            f"listen: {settings.listen}: plain HTTP would show the token to the network",
            "set --tls-cert and --tls-key, or listen on 127.0.0.1",
        )
    for folder in (settings.root, *settings.files.also):
        if not os.path.isdir(folder):
            raise SettingsError(f"root: {folder!r} is not a folder", "name a folder that exists")
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise SettingsError(
                f"root: {folder!r} cannot be written by user {os.getuid()}", "change its owner or its mode"
            )


def open_contents(settings: StoreSettings, jail: Jail, say: Callable[[str], None]) -> Contents:
    """Return the contents of a store, cleared of what an earlier process left."""
    quota = QuotaFile(settings.files.quota, say) if settings.files.quota else lambda: settings.quota
    contents = Contents(
        jail,
        Staging(f"{jail.own}/staging", PosixDisk(), sync=settings.sync),
        Account((jail.root, *jail.also), jail.own, quota),
        WriteFreeze(settings.files.freeze),
        AccessTrace(settings.files.trace),
    )
    contents.prepare()
    return contents


@contextmanager
def _folder_lock(jail: Jail, wait: float) -> Iterator[None]:
    """Hold the folder: locks of WebDAV and the quota are known to one process alone."""
    os.makedirs(jail.own, mode=0o700, exist_ok=True)
    with open(f"{jail.own}/lock", "w", encoding="utf-8") as file:
        end = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise SettingsError(
                        f"root: another store serves {jail.root}", "end it first, or name another folder"
                    ) from None
                time.sleep(0.05)
            except OSError:  # this file system has no locks
                break
        yield


def _announce(url: str, say: Callable[[str], None]) -> None:
    """Print the address for programs on the standard output, and for people in the log."""
    with suppress(OSError):
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
    say(f"listening on {url}")
