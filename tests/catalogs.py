"""The catalogs of the tests, each read once; generated tests use these, so that no fixture is printed."""

import os
from functools import cache

from fairlead.catalog import Catalog, load

SMALL = os.path.join(os.path.dirname(__file__), "small.toml")


@cache
def shipped() -> Catalog:
    """Return the shipped catalog."""
    return load()


@cache
def small() -> Catalog:
    """Return the catalog of the tests: one device for each kind of match key."""
    return load([SMALL], shipped=False)
