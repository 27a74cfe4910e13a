"""Leadership: the Lease, failover, and the in-flight set that a new leader fences. Pure."""
