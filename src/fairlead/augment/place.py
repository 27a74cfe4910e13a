"""LocalSession: a slice of this machine that is lent to a device; SessionPlace: its folder."""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from fairlead.augmentation import AugmentationSpec, StorageRequest
from fairlead.device.files import write_private
from fairlead.errors import SessionError
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.units import Bytes
from fairlead.userstate import names_with, state_folder

SESSION_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_FILE: Final = "session.json"
_PRIVATE: Final = 0o700


@dataclass(frozen=True, slots=True)
class LocalSession:
    """A session of this machine."""

    spec: AugmentationSpec
    host: str
    """The address that the store listens on."""
    port: int
    fingerprint: str
    """Of the store's certificate: 64 hexadecimal digits."""
    slow: str = ""
    """The folder of the slow tier; empty: one tier."""
    folder: str = ""
    """Where the application runs."""
    job: str = ""
    """The application as a job of this machine; empty: there is none."""
    created: float = 0.0

    @property
    def url(self) -> str:
        """The address of the store, as this machine reaches it."""
        every = self.host in ("", "0.0.0.0", "::")  # noqa: S104  # compared, not bound
        host = "127.0.0.1" if every else self.host
        return f"https://{f'[{host}]' if ':' in host else host}:{self.port}"


def sessions_folder(environ: Mapping[str, str]) -> str:
    """Return the folder that holds one folder for each session."""
    return state_folder(environ, "sessions")


def session_names(environ: Mapping[str, str]) -> list[str]:
    """Return the names of this user's sessions on this machine."""
    return names_with(sessions_folder(environ), _FILE)


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """The folder of a session, which its user alone can read."""

    name: str
    folder: str

    @classmethod
    def of(cls, environ: Mapping[str, str], name: str) -> "SessionPlace":
        """Return the place of a session of this name, whether there is one or not."""
        if not SESSION_NAME.fullmatch(name):
            raise SessionError(
                f"{name[:80]!r} is not a name of a session", "use lower-case letters, digits and hyphens"
            )
        return cls(name, os.path.join(sessions_folder(environ), name))

    @classmethod
    def existing(cls, environ: Mapping[str, str], name: str) -> "SessionPlace":
        """Return the place of a session."""
        place = cls.of(environ, name)
        if not place.exists():
            names = ", ".join(session_names(environ))
            raise SessionError(
                f"no session {name} on this machine",
                f"there are {names}" if names else "`fairlead augment create NAME --local` makes one",
            )
        return place

    def path(self, name: str) -> str:
        """Return the path of a file of the session."""
        return os.path.join(self.folder, name)

    @property
    def data(self) -> str:
        """The device's files; on the fast tier, if there are two."""
        return self.path("data")

    def exists(self) -> bool:
        """Return whether there is a session here; its data may outlive it."""
        return os.path.isfile(self.path(_FILE))

    def make(self) -> None:
        """Make the folders."""
        os.makedirs(os.path.dirname(self.folder), mode=_PRIVATE, exist_ok=True)
        for folder in (self.folder, self.data, self.path("state")):
            os.makedirs(folder, mode=_PRIVATE, exist_ok=True)
        os.chmod(self.folder, _PRIVATE)

    def read(self) -> LocalSession:
        """Return the session."""
        try:
            with open(self.path(_FILE), encoding="utf-8") as file:
                return SESSION.decode(file.read())
        except (OSError, ValueError) as error:
            raise SessionError(f"{self.path(_FILE)}: it cannot be read: {error}") from None

    def write(self, session: LocalSession) -> None:
        """Record the session; it survives a power cut once this returns."""
        write_private(self.path(_FILE), SESSION.encode(session).encode())

    def write_text(self, name: str, text: str) -> None:
        """Write a file of the session as a whole, readable by its user alone."""
        write_private(self.path(name), text.encode())

    def read_text(self, name: str) -> str:
        """Return the text of a file of the session; empty where there is none."""
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""


def resized(session: LocalSession, size: Bytes, fast: Bytes | None = None) -> LocalSession:
    """Return a session with another quota, and with another capacity of its fast tier if that is named."""
    storage = replace(session.spec.storage, size=size, fast=fast or session.spec.storage.fast)
    return replace(session, spec=replace(session.spec, storage=storage))


def _encode(session: LocalSession) -> dict[str, Any]:
    document = asdict(session)
    document["spec"]["env"] = dict(session.spec.env)
    return document


def _decode(body: Any) -> LocalSession:
    spec, storage = dict(body["spec"]), dict(body["spec"]["storage"])
    storage["classes"] = tuple(storage["classes"])
    spec |= {"storage": StorageRequest(**storage), "command": tuple(spec["command"])}
    own = {name: body[name] for name in LocalSession.__slots__ if name in body and name != "spec"}
    return LocalSession(AugmentationSpec(**spec), **own)


SESSION: Final = VersionedFormat("local-session", JSON, {1: Codec(_encode, _decode)})
