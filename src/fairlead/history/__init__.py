"""Each user's own history: ended jobs, and what was learned of their commands and models."""
