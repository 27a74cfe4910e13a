"""Fairlead leads every neural network to the accelerator where it runs best."""

__version__ = "0.1.0"
