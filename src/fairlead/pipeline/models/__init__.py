"""Stages that are ONNX models.

images.py   images as the input of a network: size, scale, layout
ports.py    what a model takes and makes; what is checked before a run
session.py  a model as a worker calls it
"""
