"""Scores: rate the candidates of a request by policy."""
