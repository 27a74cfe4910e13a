"""Where the objects of a cluster come from: an API server, or files that people wrote."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.cluster.meta import Object


@dataclass(frozen=True, slots=True)
class ObjectOrigin:
    """What a cache may expect of its objects, and what it calls them in a complaint."""

    places: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """By kind, namespace and name: the file of an object; without one it is called by its kind and name."""
    authored: bool = False
    """People wrote the objects, and no controller acted on them: no pod waits for what a controller makes."""
    storage: bool = True
    """Volumes, their claims and classes are among the objects: where they are not, no pod is held to them."""

    def place(self, kind: str, item: Object) -> str:
        """Return what to call an object in a complaint."""
        return self.places.get((kind, *item.key)) or f"{kind.lower()} {'/'.join(filter(None, item.key))}"


LIVE = ObjectOrigin()
"""An API server that was asked for every kind."""
