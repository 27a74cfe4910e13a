"""An API server of its own, for the faults."""

from tests.cluster.chaos.conftest import chaos_api

__all__ = ["chaos_api"]
