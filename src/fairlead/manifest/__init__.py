"""Files of Kubernetes, and shorter ones, as nouns: nodes, what runs on them, and what waits for a place.

Nothing is imported here: who reads pods alone need not load what reads models.
"""
