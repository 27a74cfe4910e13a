"""No tiers: every file stays where it is."""

from fairlead.tiering.policies.fast_tier import FastTier


class NoTierPolicy(FastTier):
    """Promote nothing; the measure of whether tiers pay at all."""

    def access(self, key: str, size: int) -> bool:
        """Miss."""
        del key, size
        return False

    def adopt(self, key: str, size: int) -> None:
        """Demote it."""
        del size
        self.demoted.append(key)

    def remove(self, key: str) -> None:
        """Forget nothing."""

    def holds(self, key: str) -> bool:
        """Hold nothing."""
        del key
        return False
