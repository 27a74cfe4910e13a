"""The image job in pods of a lab."""
