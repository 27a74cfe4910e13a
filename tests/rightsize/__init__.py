"""Tests of right-sizing."""
