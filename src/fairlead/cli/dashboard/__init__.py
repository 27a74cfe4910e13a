"""`fairlead dashboard`: the page of one machine, of a cluster, or of a recorded snapshot."""
