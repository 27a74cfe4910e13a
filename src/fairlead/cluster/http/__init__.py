"""Requests to an API server: encoded, sent, retried, and answered with an object or an error."""
