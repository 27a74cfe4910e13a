"""Contact: when the store was last reached, what it said of the session, and what failed since."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.device.files import write_private
from fairlead.device.place import DevicePlace


@dataclass(frozen=True, slots=True)
class Contact:
    """What the last exchange with the store left."""

    reached: float | None = None
    """Seconds since 1970."""
    tried: float | None = None
    problem: str = ""
    """Why the store was not reached at the last try; empty: it was."""
    session: Mapping[str, Any] = field(default_factory=dict)
    """`used`, `quota` and `frozen`, as the store said them."""


def save_contact(place: DevicePlace, contact: Contact) -> None:
    """Keep a contact for `fairlead device status`."""
    document = {name: getattr(contact, name) for name in Contact.__slots__}
    write_private(place.contact, json.dumps({**document, "session": dict(contact.session)}).encode())


def load_contact(place: DevicePlace) -> Contact:
    """Return the last contact; an empty one where there was none."""
    try:
        with open(place.contact, encoding="utf-8") as file:
            kept = json.load(file)
        return Contact(kept["reached"], kept["tried"], str(kept["problem"]), dict(kept["session"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Contact()
