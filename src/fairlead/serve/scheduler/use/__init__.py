"""Sharing by measured use: needs of pods, the guard of accelerators, learned sizes that are kept. Pure."""
