"""Filters: which nodes and accelerators a request can have."""
