"""Two hosts and the link between them, emulated on one machine: namespaces, a relay, a CPU quota."""
