"""Files that every worker of a job has beside it: uploaded once, by content, and fetched once by each."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from fairlead.errors import JobError, TransferError
from fairlead.submission.client import JobsClient, NamedInput
from fairlead.submission.collecting import digest_of
from fairlead.submission.places import taken_along_path
from fairlead.submission.reading import digested
from fairlead.submission.request import TakenFile, check_name
from fairlead.submission.sources import InputFile, UnusableInput

Fetch = Callable[[str, str], None]
"""Takes a path of the store and the file to write."""


def read_files(paths: Iterable[str]) -> list[tuple[TakenFile, str]]:
    """Return files to take along, each with its path on this machine; JobError for one that cannot be."""
    found: dict[str, tuple[TakenFile, str]] = {}
    for path in paths:
        name = os.path.basename(path)
        check_name(name)
        read = (
            digested(InputFile(name, path)) if os.path.isfile(path) else UnusableInput(path, "no such file")
        )
        if isinstance(read, UnusableInput):
            raise JobError(f"{path}: it cannot be taken along: {read.reason}")
        if name in found and found[name][1] != path:
            raise JobError(
                f"{path} and {found[name][1]} have the same name", "rename one: they share a folder"
            )
        found[name] = (TakenFile(name, read.digest, read.size), path)
    return list(found.values())


def upload_files(client: JobsClient, files: Sequence[tuple[TakenFile, str]]) -> None:
    """Upload what the store does not have yet."""
    for taken, path in files:
        place = taken_along_path(taken.digest, taken.name)
        if client.has(place):
            continue
        with open(path, "rb") as content:
            client.upload_file(place, NamedInput(taken.name, taken.digest, taken.size), content)


def gather_files(files: Sequence[TakenFile], folder: str, fetch: Fetch) -> None:
    """Have the files of a job in a folder; what is there already is not fetched again."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for taken in files:
        check_name(taken.name)
        target = os.path.join(folder, taken.name)
        if digest_of(target) == taken.digest:
            continue
        fetch(taken_along_path(taken.digest, taken.name), target)
        if digest_of(target) != taken.digest:
            with suppress(FileNotFoundError):
                os.unlink(target)
            raise TransferError(
                f"{taken.name}: what arrived is another file than the job's", "submit it again"
            )
        os.chmod(target, 0o700)
