"""The state of a cluster as columns, updated incrementally, with checkpoint and rollback."""
