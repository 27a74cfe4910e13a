"""The scheduler's cache: objects of the API server in, the engine's cluster and pending pods out. Pure."""
