"""The scheduler of a live cluster: what the API holds is folded, decided upon, and written back."""
