"""Long-running programs: thin loops around the rest of the package."""
