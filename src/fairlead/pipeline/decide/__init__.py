"""What the coordinator of a run decides with: its workers, a move, and where a replay begins. Pure."""
