"""Kubernetes objects with the fields that scheduling needs: typed, frozen, every other field ignored."""
