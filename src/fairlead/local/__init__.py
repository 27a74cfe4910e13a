"""One machine as a backend of the engine: run, submit and watch jobs, with no cluster and no daemon."""
