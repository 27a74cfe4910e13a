"""Commands that print the files shipped with the program: docs, examples, manifests."""
