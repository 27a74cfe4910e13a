"""Build what a lab runs: Go programs, Debian tools, container images, in a cache per user."""
