"""A live cluster as the source of a dashboard: watches, measured use, explanations, and who may see what."""
