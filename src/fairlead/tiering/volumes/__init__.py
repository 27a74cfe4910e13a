"""The two volumes of a tier: their paths, how files are copied, exchanged and leased."""
