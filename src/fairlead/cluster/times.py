"""Times as the API server writes and accepts them: RFC 3339, UTC."""

from datetime import datetime

from fairlead.compat.times import UTC, parse_iso


def parse_time(text: str) -> datetime:
    """Parse a time of the API: `2026-11-15T23:40:07Z`, with or without a fraction."""
    at = parse_iso(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def format_time(at: datetime) -> str:
    """Format a time as objects carry it, in whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro(at: datetime) -> str:
    """Format a time as leases and events carry it: the server accepts exactly six digits of a second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
