"""Binding: a decision as writes to the API server, sent in order, undone in order. Pure."""
