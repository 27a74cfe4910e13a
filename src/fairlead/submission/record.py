"""SubmissionRecord: where this machine took the inputs of a job from, so that it can go on with it."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from fairlead.device.files import write_private
from fairlead.errors import JobError
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.userstate import state_folder

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class SubmissionRecord:
    """What this machine does for a job."""

    job: str
    inputs: str
    """A folder, a list of files, or - for what was read from the standard input."""
    base: str
    follow: bool
    out: str
    """Where the results go; empty: they stay in the store."""
    slots: int
    works: bool
    """Whether this machine works on the job."""


def _decode(body: Any) -> SubmissionRecord:
    return SubmissionRecord(**{name: body[name] for name in SubmissionRecord.__slots__})


RECORD: Final = VersionedFormat("submission", JSON, {1: Codec(asdict, _decode)})


def save_record(environ: Mapping[str, str], record: SubmissionRecord) -> None:
    """Keep a record; it survives a power cut once this returns."""
    path = record_path(environ, record.job)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_private(path, RECORD.encode(record).encode())


def load_record(environ: Mapping[str, str], job: str) -> SubmissionRecord | None:
    """Return the record of a job; None: this machine did not submit it."""
    path = record_path(environ, job)
    try:
        with open(path, encoding="utf-8") as file:
            return RECORD.decode(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JobError(
            f"{path}: it cannot be read: {error}", "move it away; the job itself is in the store"
        ) from None


def remove_record(environ: Mapping[str, str], job: str) -> None:
    """Forget a job that has nothing left to do."""
    with suppress(FileNotFoundError):
        os.unlink(record_path(environ, job))


def record_path(environ: Mapping[str, str], job: str) -> str:
    """Return where the record of a job is."""
    if not _ID.fullmatch(job):
        raise JobError(f"{job[:80]!r} is not the id of a job", "`fairlead augment jobs` lists them")
    return os.path.join(state_folder(environ, "submissions"), f"{job}.json")
