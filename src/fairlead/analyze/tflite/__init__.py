"""TFLite files: flatbuffers, followed offset by offset."""

from fairlead.analyze.tflite.model import read

__all__ = ["read"]
