"""The ConfigMap that keeps what the scheduler learned, beside its Lease. Pure.

A replica reads it when it begins to lead, and writes it at the version that it read. A replica that leads
again before another one has written keeps what it learned since. What it cannot read, it does not overwrite:
a newer program, or a person, wrote it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from fairlead.cluster.http import codec
from fairlead.cluster.kinds import CONFIG_MAPS
from fairlead.cluster.meta import Metadata
from fairlead.cluster.objects import ConfigMap
from fairlead.errors import ClusterError, ConflictError, NewerFormatError, NotFoundError
from fairlead.formats import JSON, Codec, VersionedFormat
from fairlead.serve.machine.flow import Flow
from fairlead.serve.machine.requests import Get
from fairlead.serve.scheduler.effects import Learned
from fairlead.settings.scheduler import FOOTPRINTS_NAME
from fairlead.sizing.footprint import Footprint, FootprintBook
from fairlead.sizing.footprint_format import FOOTPRINTS, footprints_text

SIZES: Final = "footprints"
UNDONE: Final = "rightsize-undone"
_MOST_UNDONE: Final = 500
_LONGEST_KEY: Final = 512


def _decode_keys(body: Any) -> tuple[str, ...]:
    keys = body["keys"]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("keys: not a list of texts")
    return tuple(key[:_LONGEST_KEY] for key in keys[:_MOST_UNDONE])


UNDONE_KEYS: Final[VersionedFormat[tuple[str, ...]]] = VersionedFormat(
    "rightsize-undone", JSON, {1: Codec(lambda keys: {"keys": list(keys)}, _decode_keys)}
)
"""Workloads that go by their requests again, although their pods ask for learned sizes."""


@dataclass(frozen=True, slots=True)
class LearnedSizes:
    """What the ConfigMap holds."""

    footprints: tuple[Footprint, ...] = ()
    undone: tuple[str, ...] = ()


def learned_text(book: FootprintBook, undone: Iterable[str]) -> dict[str, str]:
    """Return the data of the ConfigMap."""
    return {
        SIZES: footprints_text(book.footprints()),
        UNDONE: UNDONE_KEYS.encode(tuple(sorted(undone)[:_MOST_UNDONE])),
    }


class LearnedStore:
    """Reads and writes the ConfigMap, as flows."""

    def __init__(self, namespace: str, log: Callable[[str], None]) -> None:
        self._namespace = namespace
        self._log = log
        self._version: str | None = None
        """The version that was read; empty: there is no ConfigMap; None: it was not read, or cannot be."""
        self._data: dict[str, str] = {}
        self.refused = ""
        """Why the ConfigMap is not overwritten; empty: it may be."""

    def load(self) -> Flow[LearnedSizes | None]:
        """Return what other leaders learned; None: nothing new, or it cannot be read and is left as it is."""
        known, self._version, self.refused = self._version, None, ""
        try:
            answer = yield Get("GET", CONFIG_MAPS.path(self._namespace, FOOTPRINTS_NAME))
            found = codec.decode(CONFIG_MAPS, answer)
            sizes = self._read(found)
        except NotFoundError:
            self._version, self._data = "", {}
            return LearnedSizes() if known != self._version else None
        except (ClusterError, NewerFormatError, ValueError) as error:
            self.refused = f"ConfigMap {self._namespace}/{FOOTPRINTS_NAME}: {error}"
            self._log(f"{self.refused}; sizes are learned again, and the ConfigMap stays as it is")
            return None
        self._version, self._data = found.metadata.resource_version, dict(found.data)
        return sizes if known != self._version else None  # this replica knows all of it, and maybe more

    def save(self, data: dict[str, str]) -> Flow[None]:
        """Write the data where it has changed, and if no other client has changed the ConfigMap."""
        if self._version is None or all(self._data.get(key) == text for key, text in data.items()):
            return
        body = ConfigMap(
            metadata=Metadata(
                name=FOOTPRINTS_NAME, namespace=self._namespace, resource_version=self._version
            ),
            data={**self._data, **data},
        )
        new = not self._version
        path = CONFIG_MAPS.path(self._namespace, "" if new else FOOTPRINTS_NAME)
        request = Learned("POST" if new else "PUT", path, codec.to_document(CONFIG_MAPS, body))
        try:
            written = codec.decode(CONFIG_MAPS, (yield request))
        except ConflictError as error:
            self._version = None  # the next leader writes, or this one after it has read again
            self._log(f"learned sizes are not written: {error}")
        except ClusterError as error:
            self._log(f"learned sizes are not written: {error}")
        else:
            self._version, self._data = written.metadata.resource_version, dict(body.data)

    def _read(self, found: ConfigMap) -> LearnedSizes:
        sizes, undone = found.data.get(SIZES), found.data.get(UNDONE)
        return LearnedSizes(
            FOOTPRINTS.decode(sizes) if sizes is not None else (),
            UNDONE_KEYS.decode(undone) if undone is not None else (),
        )
