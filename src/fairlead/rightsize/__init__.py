"""Workloads that request too much or too little, and the size that they need."""
