"""Binding: a decision as writes to the API server, sent in order and undone in order. Pure."""
