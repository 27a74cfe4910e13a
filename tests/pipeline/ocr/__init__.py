"""The example that reads text."""
