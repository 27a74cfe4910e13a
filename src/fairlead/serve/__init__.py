"""Programs that keep running: thin loops around what the rest of the house does."""
