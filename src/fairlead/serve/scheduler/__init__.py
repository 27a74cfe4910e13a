"""The scheduler of a live cluster: a state machine of events and effects, and its driver."""
