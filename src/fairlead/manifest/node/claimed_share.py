"""What a claim holds of a device; light, because every `explain` imports it."""

from fairlead.cluster.objects import AllocatedDevice
from fairlead.errors import ManifestError
from fairlead.manifest import amounts
from fairlead.share import DeviceShare


def allocated_share(result: AllocatedDevice) -> DeviceShare:
    """Return what a claim holds of a device; without an amount, the claim holds the whole device."""
    used = {name.rpartition("/")[2]: value for name, value in result.consumed_capacity.items()}
    try:
        memory = amounts.quantity("memory", used["memory"])
        return DeviceShare(result.device, memory, amounts.whole("compute", used.get("compute", 0)))
    except (KeyError, ManifestError):
        return DeviceShare(result.device, whole=True)
