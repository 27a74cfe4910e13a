"""Measure predictions against published tables: protocols, scores, and methods to compare with."""
