"""Every function that a selector may call, with its types and its cost."""
