"""Tiers by recorded I/O: which files belong on the fast volume, and what moving them saves."""
