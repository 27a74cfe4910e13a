"""What a store says of itself and its device, as its page for the session's owner answers. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fairlead.augmentobjects.credentials import StoreCredentials
from fairlead.augmentobjects.names import APPLICATION, PORT, service_hosts
from fairlead.augmentobjects.problems import AugmentationCondition
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.compat.times import UTC
from fairlead.invite import mint_admin, parse_key
from fairlead.ownedobjects.conditions import ConditionState
from fairlead.reconcile import Manifest, PageReading, PodPage
from fairlead.units import Bytes

EVERY: Final = 10.0
"""Seconds between two readings."""
EVERY_FROZEN: Final = 1.0
"""While writes are frozen: nobody shall wait for us."""
_PATH: Final = "/.fairlead/report"
_FRESH: Final = timedelta(minutes=1)
"""How old an answer may be that counts."""
_AWAY: Final = timedelta(minutes=5)
"""How long a device may be silent."""
_TOKEN: Final = 3600
"""Seconds for which a token of the page is the same: with another one it is another page."""


@dataclass(frozen=True, slots=True)
class StoreReport:
    """An answer of the page."""

    used: Bytes | None = None
    device: str = ""
    """Who has joined; empty: nobody."""
    last_seen: datetime | None = None
    digest: str = ""
    """Of the application on the device: `sha256:...`; empty: it has not said."""
    frozen: str = ""
    """Why writes are refused; empty: they are not."""
    quiet_since: datetime | None = None
    """Since when nothing was written for that reason; None: something may be."""
    at: datetime | None = None
    """When it answered."""


def report_page(
    resource: AugmentationResource,
    store: Manifest | None,
    authority: bytes,
    credentials: StoreCredentials,
    now: datetime,
) -> PodPage | None:
    """Return the page of a store; None: its pod has no address, or its key is none."""
    status: Mapping[str, Any] = (store or {}).get("status") or {}
    address = status.get("podIP")
    if not address or status.get("phase") != "Running":
        return None
    expires = (int(now.timestamp()) // _TOKEN + 2) * _TOKEN
    try:
        token = mint_admin(parse_key(credentials.invite_key), expires)
    except ValueError:
        return None
    name = service_hosts(resource.namespace, resource.name)[0]
    return PodPage(str(address), PORT, _PATH, authority.decode(), name, token)


def read_report(reading: PageReading | None, now: datetime) -> StoreReport | None:
    """Return what a page has answered lately; None: nothing that can be read."""
    if reading is None or reading.error or now - reading.at > _FRESH:
        return None
    try:
        body = json.loads(reading.body)
        used, seen, quiet = (body.get(name) for name in ("used", "last_seen", "quiet_since"))
        return StoreReport(
            Bytes(int(used)) if used is not None else None,
            str(body.get("device") or ""),
            datetime.fromtimestamp(float(seen), UTC) if seen else None,
            str((body.get("report") or {}).get("digest") or ""),
            str(body.get("frozen") or ""),
            datetime.fromtimestamp(float(quiet), UTC) if quiet else None,
            reading.at,
        )
    except (AttributeError, OverflowError, TypeError, ValueError):
        return None


def joined_state(resource: AugmentationResource, report: StoreReport | None, now: datetime) -> ConditionState:
    """Return the condition that says whether the device has joined."""
    kind, device = AugmentationCondition.JOINED, resource.spec.device
    if report is None:
        return ConditionState(kind, False, "Unknown", "the store has not said who has joined")
    if not report.device:
        text = f"{device} has not joined: fairlead augment invite prints what it needs"
        return ConditionState(kind, False, "NotJoined", text)
    if report.device != device:
        text = f"{report.device} has joined, and this is for {device}: revoke it, and invite {device}"
        return ConditionState(kind, False, "UnknownDevice", text, is_warning=True)
    if report.last_seen is not None and now - report.last_seen > _AWAY:
        at = report.last_seen.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = f"{device} was last seen at {at}: what it writes waits in its queue"
        return ConditionState(kind, False, "Away", text)
    return ConditionState(kind, True, "Joined", f"{device} has joined")


def same_state(
    resource: AugmentationResource, report: StoreReport | None, pods: Mapping[str, Manifest]
) -> tuple[ConditionState, ...]:
    """Return the condition that says whether pod and device run the same; none without an application."""
    if resource.application is None:
        return ()
    kind = AugmentationCondition.SAME_APPLICATION
    there = _plain(report.digest) if report is not None else ""
    here = _plain(resource.spec.digest or "") or _image_digest(pods.get(APPLICATION))
    if not there:
        return (ConditionState(kind, False, "NotReported", "the device has not said what it runs"),)
    if not here:
        return (ConditionState(kind, False, "NotRunning", "the pod has not said what it runs"),)
    if here == there:
        return (ConditionState(kind, True, "Same", f"both run sha256:{here}"),)
    text = f"the device runs sha256:{there}, the pod sha256:{here}: update one of them"
    return (ConditionState(kind, False, "Different", text, is_warning=True),)


def _plain(digest: str) -> str:
    return digest.rpartition(":")[2]


def _image_digest(pod: Manifest | None) -> str:
    listed = ((pod or {}).get("status") or {}).get("containerStatuses") or ()
    image = next((str(each.get("imageID") or "") for each in listed if each.get("name") == APPLICATION), "")
    return image.rpartition("sha256:")[2] if "sha256:" in image else ""
