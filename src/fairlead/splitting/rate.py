"""The rate of a worker: an exponentially weighted mean of its completion intervals."""

from fairlead.splitting.rules import SplitRules


class RateMeter:
    """Measures completions a second; the link's time is part of the intervals."""

    def __init__(self, rules: SplitRules) -> None:
        self._rules = rules
        self._interval: float | None = None
        self.count = 0
        """Completions so far."""

    @property
    def rate(self) -> float | None:
        """Completions a second; None: unmeasured."""
        return None if self._interval is None else 1.0 / self._interval

    def add(self, count: int, seconds: float) -> None:
        """Count completions that took these seconds together."""
        if count < 1:
            return
        mean = max(seconds / count, 1e-7)
        self.count += count
        if self._interval is None:
            self._interval = mean
            return
        # A second of completions counts for most of it, whatever their number.
        each = min(self._rules.heavy, max(self._rules.light, self._interval))
        weight = 1.0 - (1.0 - each) ** count
        self._interval += weight * (mean - self._interval)
