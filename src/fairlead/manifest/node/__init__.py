"""A node as a scheduler sees it: its accelerators, and which pods hold them."""
