"""The program that keeps files on the volume where they belong."""
