"""The door to cheroot: the server of the store, its connections, and the bodies of requests."""
