"""The control plane of a lab, the nodes that kwok simulates, and the add-ons."""
