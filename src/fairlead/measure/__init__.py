"""Measurement: present load, memory, power and temperature of each accelerator, read without privilege."""

from fairlead.measure.health import GpuHealth as GpuHealth
from fairlead.measure.observer import Observer as Observer
from fairlead.measure.observer import nvml_index as nvml_index
from fairlead.measure.readers import READERS as READERS
