"""Build the parts of a lab in a per-user cache: Go programs, Debian tools, container images."""
