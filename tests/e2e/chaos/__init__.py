"""Faults in a lab with several real nodes, by `make test-chaos`."""
