"""Commands that print what travels with the program: docs, examples, manifests."""
