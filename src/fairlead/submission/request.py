"""JobRequest: what a job runs, on whom and by which policy; as its user asks and as a store keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.errors import JobError
from fairlead.executors.checkpoint import CheckpointHook

SITES: Final = ("device", "pod")
POLICIES: Final = ("auto", "device", "server", "split")
KINDS: Final = ("command", "function", "model")


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A file that every worker has beside it before it begins: a program, a module, a model."""

    name: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job over many inputs."""

    kind: str
    command: tuple[str, ...]
    """The words of a command; the name of a function; the file name of a model."""
    name: str = ""
    on: tuple[str, ...] = SITES
    policy: str = POLICIES[0]
    follow: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of a model."""
    files: tuple[TakenFile, ...] = ()
    checkpoint: CheckpointHook | None = None
    feeder: str = ""
    """The device that feeds the job and works on it while it does; empty: the session's owner."""
    offload: Mapping[str, Any] = field(default_factory=dict)
    """What the feeder knows of device, server and link before a worker is measured."""

    def to_json(self) -> dict[str, Any]:
        """Return the document that a store keeps."""
        return {
            "name": self.name,
            "kind": self.kind,
            "command": list(self.command),
            "on": list(self.on),
            "policy": self.policy,
            "follow": self.follow,
            "options": dict(self.options),
            "files": [{"name": each.name, "digest": each.digest, "size": each.size} for each in self.files],
            "checkpoint": None if self.checkpoint is None else self.checkpoint.to_json(),
            "feeder": self.feeder,
            **({"offload": dict(self.offload)} if self.offload else {}),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "JobRequest":
        """Return what a store keeps; JobError for a job that this version does not understand."""
        checkpoint = document.get("checkpoint")
        try:
            files = tuple(
                TakenFile(str(each["name"]), str(each["digest"]), int(each["size"]))
                for each in document.get("files") or ()
            )
            request = cls(
                str(document.get("kind", KINDS[0])),
                tuple(map(str, document["command"])),
                str(document.get("name", "")),
                tuple(map(str, document.get("on") or SITES)),
                str(document.get("policy", POLICIES[0])),
                bool(document.get("follow", False)),
                dict(document.get("options") or {}),
                files,
                None if checkpoint is None else CheckpointHook.of(checkpoint),
                str(document.get("feeder", "")),
                dict(document.get("offload") or {}),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise JobError(
                f"the job cannot be understood: {error}", "use the same version on both sides"
            ) from None
        for each in request.files:
            check_name(each.name)
        return request


def check_name(name: str) -> None:
    """Raise JobError for a name that is more than one of a file."""
    if not name or name in (".", "..") or "/" in name or "\0" in name or not name.isprintable():
        raise JobError(f"{name[:80]!r} is not the name of a file that can be taken along")


def check_command(request: JobRequest) -> None:
    """Raise JobError for a command that does not read its input."""
    if request.kind != "command":
        if request.checkpoint is not None:
            raise JobError("a checkpoint is made by commands", "use --command, or leave the checkpoint out")
        return
    if not any("{input}" in word for word in request.command):
        raise JobError(
            "the command does not say where its input goes",
            "write {input} where it takes the path, for example --command 'wc -l {input}'",
        )
