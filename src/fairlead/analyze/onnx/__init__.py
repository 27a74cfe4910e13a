"""ONNX files: protocol buffers, parsed in place."""

from fairlead.analyze.onnx.model import read

__all__ = ["read"]
