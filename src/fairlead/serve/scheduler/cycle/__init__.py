"""The scheduling cycle: the queue, the decision for the next pod, and preemption. Pure."""
