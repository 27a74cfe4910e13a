"""Measurement: what each accelerator is doing now, read without privilege and without harm."""

from fairlead.measure.observer import Observer as Observer
from fairlead.measure.readers import READERS as READERS
