"""Commands about placement: schedule, explain, simulate, snapshot, replay."""
