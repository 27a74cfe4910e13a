"""Estimates for the models that pods run: from model files, or from the profiles of a cluster."""
