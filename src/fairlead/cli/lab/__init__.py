"""`fairlead lab`: a real Kubernetes on this machine."""
