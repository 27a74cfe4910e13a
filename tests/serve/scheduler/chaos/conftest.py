"""The API server that the mishaps happen to: nobody else's."""

from tests.cluster.chaos.conftest import chaos_api

__all__ = ["chaos_api"]
