"""The file of a run as its ConfigMap holds it: what the coordinator reads, and what it was made from. Pure.

While the coordinator's pod exists, the file changes only by what the run can carry out live: it is the
record of what the run is.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairlead.errors import PipelineError
from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipeline.yaml_file import read_document
from fairlead.pipelineobjects.names import SLOTS
from fairlead.pipelineobjects.resource import HOST, PipelineResource
from fairlead.pipelineobjects.update.record import UPDATES, UpdateRecord, read_record
from fairlead.pipelineobjects.wiring import FILE_KEY, file_map, file_text
from fairlead.reconcile import Manifest

_SPEC_KEY: Final = "spec.json"
_UPDATE_KEY: Final = "update.json"


@dataclass(frozen=True, slots=True)
class RunFile:
    """The file of a run."""

    document: Manifest
    """What the coordinator reads."""
    made_from: Manifest
    """The spec of the resource, with the image and the hosts that were chosen."""
    record: UpdateRecord = field(default_factory=UpdateRecord)

    @property
    def digest(self) -> str:
        """The digest by which the run names the file."""
        return hashlib.sha256(file_text(self.document).encode()).hexdigest()

    @property
    def spec(self) -> PipelineSpec:
        """The pipeline in it."""
        return read_document(self.document)

    def slots(self, resource: PipelineResource) -> dict[str, str]:
        """Return the slot of each host that the file has."""
        addresses = {
            (host, str(body["address"])) for host, body in (self.document.get("hosts") or {}).items()
        }
        pairs = [(group.name, slot) for group in resource.hosts for slot in SLOTS]
        return {host: slot for host, slot in pairs if (host, resource.address(host, slot)) in addresses}

    def config_map(self, resource: PipelineResource) -> Manifest:
        """Return the ConfigMap that holds it."""
        data = {FILE_KEY: file_text(self.document), _SPEC_KEY: json.dumps(self.made_from, sort_keys=True)}
        if self.record != UpdateRecord():
            data[_UPDATE_KEY] = UPDATES.encode(self.record)
        return file_map(resource, data)

    def with_record(self, record: UpdateRecord) -> "RunFile":
        """Return the same file with another record."""
        return replace(self, record=record)

    def with_slots(self, resource: PipelineResource, slots: Mapping[str, str]) -> "RunFile":
        """Return the file with hosts in these slots, and the others as they are."""
        hosts = dict(self.document.get("hosts") or {})
        for host, slot in slots.items():
            hosts[host] = {**hosts.get(host, {}), "address": resource.address(host, slot)}
        return replace(self, document={**self.document, "hosts": hosts})


def read_run_file(config_map: Manifest | None) -> RunFile | None:
    """Return the file that a ConfigMap holds; None where there is none that can be read."""
    data: Mapping[str, str] = (config_map or {}).get("data") or {}
    try:
        file = RunFile(
            json.loads(data[FILE_KEY]), json.loads(data[_SPEC_KEY]), read_record(data.get(_UPDATE_KEY, ""))
        )
        read_document(file.document)
    except (ValueError, KeyError, TypeError, AttributeError, PipelineError):
        return None
    return file


def resolved_spec(manifest: Manifest, resource: PipelineResource, image: str) -> dict[str, Any]:
    """Return the spec of a resource with what it leaves open: its image, and the hosts of its stages."""
    spec = dict(manifest.get("spec") or {})
    hosts = {stage.name: stage.on for stage in resource.spec.stages}
    stages = [{**each, HOST: hosts.get(each["name"], "")} for each in spec.get("stages") or ()]
    return {**spec, "stages": stages, "image": resource.image or image}
