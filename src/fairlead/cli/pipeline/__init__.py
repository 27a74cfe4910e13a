"""`fairlead pipeline`: check and run pipelines of stages on this machine."""
