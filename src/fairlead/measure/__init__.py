"""Measurement: what each accelerator is doing now, read without privilege and without harm."""

from fairlead.measure.health import GpuHealth as GpuHealth
from fairlead.measure.observer import Observer as Observer
from fairlead.measure.observer import nvml_index as nvml_index
from fairlead.measure.readers import READERS as READERS
