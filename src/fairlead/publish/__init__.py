"""What a node tells Kubernetes of its accelerators, what a container is given, and who holds what.

Nothing here reads a clock, a socket or a cluster: it is told what is, and says what follows.
"""
