"""A scheduler extender: what a stock kube-scheduler cannot count itself, asked over HTTP; it never binds."""
