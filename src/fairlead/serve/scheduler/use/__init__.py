"""Sharing by measured use: needs of pods, the guard of accelerators, and learned sizes that are kept. Pure."""
