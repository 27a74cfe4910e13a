"""Plan a running pipeline again: what was measured since, whether another cut pays, and what has moved.

Proposals and beliefs are pure; `replanning.py` alone reads a clock and asks hosts.
"""
