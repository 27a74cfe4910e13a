"""Play a trace in virtual time: events, running jobs, faults, and the policy under test."""
