"""Long-running programs as state machines: events in, effects out, and a driver that performs them."""
