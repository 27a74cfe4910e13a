"""Whether a job may fit by amounts alone: of a thousand queued jobs, the engine decides for a few."""

from fairlead.local.queue.requests import NODE, QueuedJob
from fairlead.need import headroom
from fairlead.schedule.filter.hints import resource_fit_hint
from fairlead.schedule.state.cluster import EngineCluster


class FreeRoom:
    """The free amounts of the machine, with the few figures that refuse most jobs."""

    def __init__(self, cluster: EngineCluster) -> None:
        self.free = cluster.free(NODE)
        devices = self.free.devices
        self._most = max((device.memory for device in devices), default=-1)
        """Free memory of one accelerator, for jobs that cannot hold more than they count for."""
        spared = (device.memory - (0 if device.soft else headroom(device.total)) for device in devices)
        self._most_soft = max(spared, default=-1)
        """The same for other jobs: headroom stays free beside them."""
        self._unheld = sum(1 for device in devices if not device.holders)

    def may_fit(self, queued: QueuedJob) -> bool:
        """Return whether a job may fit: False is certain, True needs a decision."""
        return self.has_amounts(queued) and resource_fit_hint(queued.request, self.free)

    def has_amounts(self, queued: QueuedJob) -> bool:
        """Return the same by a few comparisons, without the job's request."""
        if queued.memory > self.free.memory and queued.memory:
            return False
        gpus = queued.job.assumed.gpus
        if not gpus:
            return True
        if queued.whole:
            return self._unheld >= gpus
        return queued.least <= (self._most_soft if queued.soft else self._most)
