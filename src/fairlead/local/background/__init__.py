"""A process of one user in the background: its lock, its log, its environment and its start."""
