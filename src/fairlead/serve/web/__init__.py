"""A web server for a few small pages: bounded in size and time, with TLS and a token where asked."""
