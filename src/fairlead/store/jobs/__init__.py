"""Split jobs in a store: their inputs in a database, leases to workers, each result once."""
