"""MPS on one machine: a daemon for each user and device, kept by a process of ours while jobs need it."""
