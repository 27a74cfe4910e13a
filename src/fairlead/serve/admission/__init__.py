"""An admission webhook: it limits the scheduler's account to its own pods and to lower-priority victims."""
