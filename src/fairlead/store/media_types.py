"""The content types of files, by their names."""

import mimetypes

_TYPES = mimetypes.MimeTypes()  # the tables of this Python alone: the same on every machine


def content_type(path: str) -> str:
    """Return the content type that the name of a file suggests."""
    return _TYPES.guess_type(path.rpartition("/")[2], strict=False)[0] or "application/octet-stream"
