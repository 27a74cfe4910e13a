"""The formats that a leader writes into a cluster, as the Lease names them: `in-flight/1 placement/1`. Pure.

The Lease keeps them after the leader is gone. A replica that cannot read one of them does not lead: it could
neither fence what that leader left half done nor know what the leader allocated.
"""

from typing import Any, Final

from fairlead.formats import VersionedFormat
from fairlead.manifest.types.live import LEADER_EPOCHS
from fairlead.placement import PLACEMENTS
from fairlead.serve.scheduler.leader.in_flight import IN_FLIGHT_SETS

WRITTEN: Final[tuple[VersionedFormat[Any], ...]] = (IN_FLIGHT_SETS, LEADER_EPOCHS, PLACEMENTS)


def names() -> str:
    """Return the formats that this replica writes, as its Lease names them."""
    return " ".join(f"{each.name}/{each.newest}" for each in WRITTEN)


def unreadable(text: str) -> str:
    """Return the first format of a Lease that this replica cannot read; empty where it reads them all."""
    known = {each.name: each.codecs for each in WRITTEN}
    for word in text.split():
        name, _, version = word.partition("/")
        if name not in known or not version.isdecimal() or int(version) not in known[name]:
            return word
    return ""
