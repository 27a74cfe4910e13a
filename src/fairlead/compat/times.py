"""UTC, and times as RFC 3339 writes them."""

import re
import sys
from datetime import datetime, timezone

__all__ = ["UTC", "parse_iso"]

UTC = timezone.utc

if sys.version_info >= (3, 11):
    parse_iso = datetime.fromisoformat
else:
    _FRACTION = re.compile(r"\.(\d+)")

    def parse_iso(text: str) -> datetime:
        """Parse a time; Python 3.10 itself accepts no Z, and only fractions of three or six digits."""
        with_offset = text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text
        six_digits = _FRACTION.sub(lambda match: f".{match[1][:6]:0<6}", with_offset)
        try:
            return datetime.fromisoformat(six_digits)
        except ValueError:
            raise ValueError(f"Invalid isoformat string: {text!r}") from None
