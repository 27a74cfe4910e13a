"""The agent of a node: thin loops that scan the machine, measure it and publish what they find."""
