"""Kubernetes manifests and short-form files as values: nodes, the pods on them, and pending pods.

This module imports nothing: a program that reads pods alone does not load what reads models.
"""
