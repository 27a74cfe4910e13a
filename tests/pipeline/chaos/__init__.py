"""Faults in running pipelines; FAIRLEAD_CHAOS=long repeats them for minutes."""
