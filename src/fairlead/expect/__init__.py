"""What is expected of the models that pods run: from their files, or from the profiles of a cluster."""
