"""Scores: how good each candidate is, by policy."""
