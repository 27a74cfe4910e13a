"""TFLite files: flatbuffers, parsed in place."""

from fairlead.analyze.tflite.model import read

__all__ = ["read"]
