"""Where the objects of a cluster come from: an API server, or files that people wrote."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.cluster.meta import Object


@dataclass(frozen=True, slots=True)
class ObjectOrigin:
    """What a cache may expect of its objects, and how errors name them."""

    places: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """The file of an object, by kind, namespace and name; without one, errors name its kind and name."""
    authored: bool = False
    """People wrote the objects, and no controller acted on them: no pod waits for a controller."""
    storage: bool = True
    """Volumes, their claims and classes are among the objects: where they are not, no pod depends on them."""

    def place(self, kind: str, item: Object) -> str:
        """Return how an error names an object."""
        return self.places.get((kind, *item.key)) or f"{kind.lower()} {'/'.join(filter(None, item.key))}"


LIVE = ObjectOrigin()
"""An API server from which every kind was listed."""
