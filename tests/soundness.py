"""Properties of every inventory, whatever machine it was made from."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fairlead.catalog import Catalog
from fairlead.catalog.device import KINDS
from fairlead.inventory import Accelerator, Inventory
from fairlead.publish.labels import labels, legacy_labels

_DNS_LABEL: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def assert_sound(inventory: Inventory, catalog: Catalog) -> None:
    """Check an inventory as a reader of its JSON and of its labels would."""
    document = inventory.to_json()
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode("utf-8", "strict")) == document
    assert all(line.isprintable() for line in inventory.machine.problems)
    ids = [acc.id for acc in inventory.accelerators]
    assert len(set(ids)) == len(ids)
    for acc in inventory.accelerators:
        _assert_sound_accelerator(acc, catalog)
    for unknown in inventory.unknown:
        assert unknown.reason
        assert f"{unknown.bus}{unknown.ids}{unknown.driver}{unknown.reason}".isprintable()
    assert_labels(labels(inventory), prefix="fairlead.dev/")
    assert_labels(legacy_labels(inventory), prefix="")


def _assert_sound_accelerator(acc: Accelerator, catalog: Catalog) -> None:
    assert _DNS_LABEL.fullmatch(acc.id), acc.id
    assert acc.kind in KINDS
    assert 0 < acc.confidence < 1
    assert acc.candidates
    assert all(candidate in catalog.devices for candidate in acc.candidates)
    assert acc.model is None or acc.model in acc.candidates
    assert acc.reason or acc.state == "healthy"
    assert acc.evidence
    assert acc.memory is None or acc.memory > 0
    assert set(acc.effective) == set(acc.peak)
    assert all(0 < acc.effective[name] <= acc.peak[name] for name in acc.peak)
    texts = [
        acc.name,
        acc.vendor,
        acc.bus,
        acc.reason,
        acc.driver,
        acc.driver_version,
        acc.uuid,
        acc.node,
        acc.product,
    ]
    texts += [text for item in acc.evidence for text in (item.source, item.path, item.says)]
    assert all(text is None or text.isprintable() for text in texts), texts


def assert_labels(found: Mapping[str, str], *, prefix: str) -> None:
    """Check that Kubernetes would accept every label."""
    for key, value in found.items():
        assert key.startswith(prefix)
        domain, slash, name = key.rpartition("/")
        assert not slash or (_DNS_SUBDOMAIN.fullmatch(domain) and len(domain) <= 253), key
        assert _LABEL.fullmatch(name), key
        assert _LABEL.fullmatch(value), (key, value)


def without_evidence(inventory: Inventory) -> Inventory:
    """Return an inventory without its evidence, to compare two scans of one machine."""
    bare = tuple(replace(acc, evidence=()) for acc in inventory.accelerators)
    return replace(inventory, accelerators=bare, machine=replace(inventory.machine, problems=()))
