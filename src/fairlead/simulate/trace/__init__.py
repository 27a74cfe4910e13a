"""Traces: jobs, machines and faults, read from files or generated."""
