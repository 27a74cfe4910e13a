"""Ask a snapshot or a live cluster where workloads would go, or why they wait; each yes and no is explained.

Nothing is imported here: who asks the scheduler need not load the engine.
"""
