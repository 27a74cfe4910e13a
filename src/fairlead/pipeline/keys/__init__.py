"""Keys of a pipeline's file, and of the same values in Python.

fields.py   counts, times and flags, and keys that are not known
batch.py    the key `batch` of a stage
"""
