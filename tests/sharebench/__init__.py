"""Engines that share an accelerator: played engines, real processes, a real queue."""
