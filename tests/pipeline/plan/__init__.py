"""The planner of cuts."""
