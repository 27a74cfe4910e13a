"""Ask a snapshot or a live cluster where workloads would go, or why they are pending, with every reason.

This package imports nothing: a client of the scheduler need not load the engine.
"""
