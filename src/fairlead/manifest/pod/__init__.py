"""A pod, or a controller, as requests for a place."""
