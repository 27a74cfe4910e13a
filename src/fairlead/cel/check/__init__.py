"""Type checks, and what Kubernetes validates beyond them, as in cel-go."""
