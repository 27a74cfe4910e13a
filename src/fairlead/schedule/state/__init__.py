"""The state of a cluster as columns, kept up to date step by step, with undo."""
