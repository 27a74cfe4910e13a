"""Start, restart and end a lab, and keep its state."""
