"""Leader election by a Lease, for every program of which one replica decides. Pure."""
