"""The marks by which leaders fence pending pods, as this replica has seen them. Pure."""

from fairlead.errors import NewerFormatError
from fairlead.manifest.types.live import LivePod


class LeaderMarks:
    """The highest epoch on any pending pod, and a mark that this program cannot read."""

    def __init__(self) -> None:
        self.epoch = 0
        """A replica of a lower epoch leads no more."""
        self.newer = ""
        """A mark that a newer leader wrote, and its pod: this replica leads no more; empty: there is none."""

    def on_pod(self, pod: LivePod) -> None:
        """Read the mark of a pending pod."""
        try:
            self.epoch = max(self.epoch, pod.leader_epoch)
        except NewerFormatError as error:
            self.newer = f"pod {'/'.join(pod.key)}: {error}"
