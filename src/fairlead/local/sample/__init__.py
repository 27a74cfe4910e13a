"""What one running job uses: its processes in /proc, and their use of accelerators."""

from fairlead.local.sample.sampler import JobSampler

__all__ = ["JobSampler"]
