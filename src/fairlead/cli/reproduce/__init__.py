"""`fairlead reproduce`: published experiments, each beside its published figures, and all on one page."""
