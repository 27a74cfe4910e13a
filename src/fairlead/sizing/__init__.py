"""Needs of pods from measured use: learned sizes, published rules, and the guard of a device; pure."""
