"""Models of submitted workloads."""
