"""ONNX files: protocol buffers, walked in place."""

from fairlead.analyze.onnx.model import read

__all__ = ["read"]
