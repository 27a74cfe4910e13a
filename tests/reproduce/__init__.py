"""Tests of published experiments."""
