"""A fake cluster in memory: it passes the same contract tests as a real API server."""
