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
        """Read a time; Python 3.10 by itself takes no Z, and a fraction of three or six digits alone."""
        plain = text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text
        six = _FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", plain)
        try:
            return datetime.fromisoformat(six)
        except ValueError:
            raise ValueError(f"Invalid isoformat string: {text!r}") from None
