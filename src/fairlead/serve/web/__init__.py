"""Web servers for a few small pages and calls: bounded in size and time, with optional TLS and token."""
