"""How operators shape their outputs, by what they do."""
