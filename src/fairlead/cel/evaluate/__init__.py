"""Evaluate a checked expression on values, within a cost limit."""
