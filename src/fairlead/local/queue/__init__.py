"""Which queued jobs start now and where, why the others wait, and until when; pure."""

from fairlead.local.queue.plan import plan_queue

__all__ = ["plan_queue"]
