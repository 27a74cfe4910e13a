"""Kubernetes objects as far as placing pods needs them: typed, frozen, every other field ignored."""
