"""A dump for a fault report: a cluster or a machine, with secrets removed, in one archive."""
