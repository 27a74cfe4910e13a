"""A node as the scheduler sees it: its accelerators, and the pods that hold them."""
