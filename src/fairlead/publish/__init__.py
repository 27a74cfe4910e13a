"""What a node publishes about its accelerators, what a container receives, and the ledger of holdings.

Nothing here reads a clock, a socket or a cluster: facts come in as arguments, decisions go out as values.
"""
