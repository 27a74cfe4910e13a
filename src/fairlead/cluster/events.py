"""Events about objects, as `kubectl describe` and `kubectl events` show them. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    """Empty for a cluster-scoped object: its events are in `default`."""
    name: str
    uid: str

    @property
    def home(self) -> str:
        """The namespace of its events."""
        return self.namespace or "default"


def event_document(
    about: EventSubject, component: str, summary: tuple[str, str, str], now: str, identity: str
) -> dict[str, Any]:
    """Return an event; `summary` is its type, reason and message; one `identity` is one event."""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    subject: Mapping[str, Any] = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        **({"namespace": about.namespace} if about.namespace else {}),
        "name": about.name,
        "uid": about.uid,
    }
    kind, reason, message = summary
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name[:230]}.{digest}", "namespace": about.home},
        "involvedObject": subject,
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
