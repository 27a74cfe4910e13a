"""What Python 3.11 has and 3.10 lacks: JetPack 6 and Ubuntu 22.04 ship 3.10, and the agent runs there.

On 3.11 and newer every name here is the standard library's own. Each module is imported only where it is
needed: `--help` and the warden load neither a TOML parser nor asyncio.
"""

import sys

__all__ = ["StrEnum"]

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """Members that are strings, and print as their values."""

        __str__ = str.__str__
        __format__ = str.__format__
