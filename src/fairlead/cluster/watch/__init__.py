"""List and watch: a copy of the objects of one kind that follows the cluster."""
