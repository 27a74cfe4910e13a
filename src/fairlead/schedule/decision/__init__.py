"""Decisions: one request, copies, gangs, whole queues, and preemption."""
