"""Commands for jobs on this machine: run, submit, ps, logs, cancel, top, adopt."""
