"""The control plane of a lab, the nodes that kwok plays, and the add-ons."""
