"""Commands about a live cluster: nodes, devices, retract."""
