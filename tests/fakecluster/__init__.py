"""A cluster in memory for tests: it passes the same contract tests as a real API server."""
