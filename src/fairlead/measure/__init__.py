"""Measurement: what each accelerator is doing now, read without privilege and without harm."""

from fairlead.measure.health import GpuHealth as GpuHealth
from fairlead.measure.observer import Observer as Observer
from fairlead.measure.observer import index_of as index_of
from fairlead.measure.readers import READERS as READERS
