"""Tests of profiles of pipelines."""
