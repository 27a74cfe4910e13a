"""Measured use of accelerators, read from Prometheus or from agents; bounded and checked."""
