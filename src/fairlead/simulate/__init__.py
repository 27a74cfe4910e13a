"""Play a trace of jobs against a fleet in virtual time, with the engine that serves real clusters."""
