"""Addresses as messages show them."""

from urllib.parse import urlsplit, urlunsplit


def without_password(url: str) -> str:
    """Return an address with the password in it replaced."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if ":" not in user:
        return url
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***{at}{host}"))
