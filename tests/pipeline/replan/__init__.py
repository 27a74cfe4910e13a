"""Tests of replanning."""
