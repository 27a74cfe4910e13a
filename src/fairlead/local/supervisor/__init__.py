"""The submitted jobs of one user: a process that starts them, and ends when none waits."""

from fairlead.local.supervisor.start import early_supervisor, ensure_supervisor, start_supervisor

__all__ = ["early_supervisor", "ensure_supervisor", "start_supervisor"]
