"""Faults injected into the jobs of one machine."""
