"""An admission webhook: the scheduler's account keeps to its own pods, and to victims of lower priority."""
