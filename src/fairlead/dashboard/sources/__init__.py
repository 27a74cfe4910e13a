"""Sources of the dashboard: a recorded snapshot, a live cluster (`local/dashboard`: one machine)."""
