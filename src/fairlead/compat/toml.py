"""TOML: the standard library's parser, or tomli, from which it was taken."""

import sys

__all__ = ["TOMLDecodeError", "loads"]

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError, loads
else:
    from tomli import TOMLDecodeError, loads
