"""Pods and controllers as scheduling requests."""
