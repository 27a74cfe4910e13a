"""What the scheduler reports: conditions, events, explanations, metrics. Pure."""
