"""RefusedError: a request that is answered with an error, and why; OSErrors as refusals."""

import errno
from http import HTTPStatus
from typing import Final

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENXIO, errno.EXDEV})
_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


class RefusedError(Exception):
    """Ends a request with a status and one line of text."""

    def __init__(
        self,
        status: int,
        reason: str,
        headers: tuple[tuple[str, str], ...] = (),
        page: tuple[str, bytes] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = HTTPStatus(status)
        self.reason = reason
        self.headers = headers
        self.page = page or ("text/plain; charset=utf-8", f"{reason}\n".encode())
        """The content type and the body of the answer."""


def refusal_of(error: OSError) -> RefusedError:
    """Return the refusal for an error of the file system."""
    if error.errno in _FULL:
        return RefusedError(507, "the volume of the store is full")
    if error.errno in _FORBIDDEN:
        return RefusedError(403, f"not allowed: {(error.strerror or 'refused').lower()}")
    if error.errno in _MISSING:
        return RefusedError(409, "the folder of this path does not exist, or no longer")
    if error.errno == errno.ENAMETOOLONG:
        return RefusedError(414, "a name in this path is too long")
    return RefusedError(500, f"the volume of the store failed: {(error.strerror or 'unknown').lower()}")
