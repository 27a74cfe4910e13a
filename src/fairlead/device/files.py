"""Files of a device's state: private, written as a whole, on the disk before the next step relies on them."""

import os
from contextlib import suppress


def write_private(path: str, data: bytes) -> None:
    """Replace a file by one that its owner alone can read; it survives a power cut once this returns."""
    new = f"{path}.{os.getpid()}.new"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(new, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(new)
        raise
    sync_folder(os.path.dirname(path))


def sync_folder(path: str) -> None:
    """Write the names in a folder to the disk: a file that was made or renamed there survives a power cut."""
    handle = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
