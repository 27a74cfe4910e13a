"""Filters: which nodes and accelerators can take a request."""
