"""The agent of a node: thin loops that look, measure and publish."""
