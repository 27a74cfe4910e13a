"""Start, restart and end a lab, and know what is running."""
