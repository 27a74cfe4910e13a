"""Tests of pipelines that are measured as pods of a lab."""
