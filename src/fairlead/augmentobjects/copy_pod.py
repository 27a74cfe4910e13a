"""The pods that copy the data of an Augmentation to another claim. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fairlead.augmentobjects.claims import claim_names
from fairlead.augmentobjects.names import COPY, DATA, DATA_VOLUME, LAST_COPY, claim_name, new_object
from fairlead.augmentobjects.resource import AugmentationResource
from fairlead.augmentobjects.store_pod import TMP, pod_base, with_hash
from fairlead.compat.times import parse_iso
from fairlead.keys import AUGMENTATION_PART
from fairlead.ownedobjects.confined import container_security, resources_of
from fairlead.ownedobjects.kinds import PODS
from fairlead.reconcile import Manifest

TARGET_VOLUME: Final = "/target"
_PACKAGES: Final = "/usr/lib/fairlead"
"""Where the image of the store has our packages."""
_REQUESTS: Final = {"cpu": "100m", "memory": "64Mi"}
_END: Final = 5


def copy_pod(resource: AugmentationResource, default_image: str, part: str) -> dict[str, Any]:
    """Return the pod of a pass, `copy` or `last-copy`, with the digest of what it is made from."""
    target = claim_name(resource.name, DATA, resource.data_claim + 1)
    spec = {
        **pod_base(resource),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _END,
        "containers": [_container(resource, default_image, part)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "source", "persistentVolumeClaim": {"claimName": claim_names(resource)[DATA]}},
            {"name": "target", "persistentVolumeClaim": {"claimName": target}},
        ],
    }
    pod = new_object(PODS, resource.namespace, resource.name, f"{resource.name}-{part}", spec=spec)
    pod["metadata"]["labels"][AUGMENTATION_PART] = part
    return with_hash(pod)


def _container(resource: AugmentationResource, default_image: str, part: str) -> dict[str, Any]:
    command = ["/usr/bin/python3", "-m", "fairlead.store.copying", DATA_VOLUME, TARGET_VOLUME]
    command += ["--capacity", str(resource.spec.storage.size), *(["--last"] if part == LAST_COPY else [])]
    environment = {
        "HOME": TMP,
        "PYTHONPATH": _PACKAGES,
        "PYTHONDONTWRITEBYTECODE": "1",
        # Another request is another pod: what an earlier one has copied does not count for it.
        "FAIRLEAD_REQUEST": str(resource.reclaim),
    }
    return {
        "name": COPY,
        "image": resource.image or default_image,
        "command": command,
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": resources_of({}, _REQUESTS, None),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": TMP},
            {"name": "source", "mountPath": DATA_VOLUME, "readOnly": True},
            {"name": "target", "mountPath": TARGET_VOLUME},
        ],
        **({"imagePullPolicy": resource.pull_policy} if resource.pull_policy else {}),
    }


def phase_of(pod: Manifest) -> str:
    """Return the phase of a pod."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def last_words(pod: Manifest) -> str:
    """Return what the program of a pod said at its end, or why the pod failed."""
    status = pod.get("status") or {}
    said = str(_terminated(pod).get("message") or "").strip()
    return said or str(status.get("message") or status.get("reason") or "it said nothing")


def run_time(pod: Manifest) -> tuple[datetime, datetime] | None:
    """Return when the program of a pod has started and ended; None: it has not."""
    ended = _terminated(pod)
    if not ended.get("startedAt") or not ended.get("finishedAt"):
        return None
    return parse_iso(ended["startedAt"]), parse_iso(ended["finishedAt"])


def _terminated(pod: Manifest) -> Mapping[str, Any]:
    listed = (pod.get("status") or {}).get("containerStatuses") or ()
    found: Mapping[str, Any] = next((each for each in listed if each.get("name") == COPY), {})
    ended: Mapping[str, Any] = (found.get("state") or {}).get("terminated") or {}
    return ended
