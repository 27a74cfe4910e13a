"""A scheduler extender: filters and scores nodes for a stock kube-scheduler over HTTP; it never binds."""
