"""Which frames of an edge a canary gets: at most its share of them, evenly in between. Pure."""


class CanaryShare:
    """The frames of one path that have been sent, and those of them to a canary."""

    def __init__(self) -> None:
        self.index: int | None = None
        """The link of the canary; None: there is none."""
        self._percent = 0
        self._sent = 0
        self._given = 0

    def set(self, index: int, percent: int) -> None:
        """Take the share of a link; 0: it is no canary's."""
        if percent:
            self.index, self._percent = index, percent

    @property
    def is_due(self) -> bool:
        """Whether the canary may have the next frame."""
        return 100 * (self._given + 1) <= self._percent * (self._sent + 1)

    def count(self, index: int) -> None:
        """Count a frame that was sent on a link."""
        self._sent += 1
        self._given += index == self.index
