"""The cluster as its API server describes it: objects in, the engine's cluster and pending pods out. Pure."""
