"""The archive of a dump: an index, the snapshot, and what else could be read; equal parts, equal bytes."""

import gzip
import io
import json
import tarfile
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead import __version__
from fairlead.dump.scrub import Scrubber
from fairlead.manifest.files.dumps import FORMAT, INDEX, SNAPSHOT, VERSION

_MODE: Final = 0o600


@dataclass
class DumpBuilder:
    """Gathers the parts of a dump; every part goes through the scrubber."""

    source: str
    """The cluster's context, or the machine."""
    taken: str
    """RFC 3339, UTC."""
    scrubber: Scrubber
    parts: dict[str, bytes] = field(default_factory=dict)
    """By the name of the member."""
    missing: list[dict[str, str]] = field(default_factory=list)
    """What could not be read, and why."""

    def add(self, name: str, document: Any) -> None:
        """Add a document as JSON."""
        text = json.dumps(self.scrubber.document(document), indent=1)
        self.parts[name] = f"{text}\n".encode()

    def add_text(self, name: str, text: str) -> None:
        """Add a text."""
        self.parts[name] = self.scrubber.text(text).encode()

    def add_snapshot(self, document: Any) -> None:
        """Add the snapshot; its format has no field for secrets, but names and labels are texts of users."""
        self.parts[SNAPSHOT] = f"{json.dumps(self.scrubber.document(document))}\n".encode()

    def miss(self, what: str, why: object) -> None:
        """Record a part that could not be read."""
        self.missing.append({"what": what, "why": self.scrubber.text(str(why))})

    def index(self) -> dict[str, Any]:
        """Return the index: what the dump is, what it holds, and what it lacks."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "fairlead": __version__,
            "source": self.source,
            "taken": self.taken,
            "removed": self.scrubber.removed,
            "files": [{"name": name, "bytes": len(data)} for name, data in sorted(self.parts.items())],
            "missing": self.missing,
        }

    def pack(self) -> bytes:
        """Return the archive; the index and the snapshot come first, so that readers need not read it all."""
        index = f"{json.dumps(self.index(), indent=1)}\n".encode()
        first = [(INDEX, index), *((SNAPSHOT, self.parts[SNAPSHOT]) for _ in self.parts.keys() & {SNAPSHOT})]
        rest = sorted((name, data) for name, data in self.parts.items() if name != SNAPSHOT)
        packed = io.BytesIO()
        with (
            gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for name, data in [*first, *rest]:
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), _MODE
                tar.addfile(info, io.BytesIO(data))
        return packed.getvalue()
