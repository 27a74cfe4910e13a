"""Commands about one machine: detect, capture, catalog, doctor."""
