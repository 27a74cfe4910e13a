"""Frames between two processes of one machine: a ring of slots in shared memory, without names or copies."""
