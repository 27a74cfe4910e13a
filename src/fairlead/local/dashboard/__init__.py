"""One machine as a source of the dashboard: its accelerators, cores and memory, and its jobs."""
