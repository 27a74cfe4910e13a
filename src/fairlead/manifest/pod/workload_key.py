"""By which key the measured use of a pod is learned and found again. Pure.

Pods of one model, or of one image, use about the same memory. A pending pod has no status yet, so the digest
of its image is not known before it runs: `workload_keys` returns every key of a pod, best first. Use is
recorded under each of them and looked up under the first that has a history.
"""

import re
from collections.abc import Iterable
from typing import Final

from fairlead import keys
from fairlead.manifest.pod.demand import is_accelerator
from fairlead.manifest.types.kubernetes import Container, Pod

_DIGEST: Final = re.compile(r"(?:^|@|//)(sha256:[0-9a-f]{64})$")
_LONGEST: Final = 256
"""The most characters of a model's name or of an image in a key."""


def workload_key(pod: Pod) -> str:
    """Return the best key of a pod: `model:NAME`, `image:sha256:DIGEST` or `image:REFERENCE`; empty: none."""
    return next(iter(workload_keys(pod)), "")


def workload_keys(pod: Pod) -> tuple[str, ...]:
    """Return every key of a pod, best first; a pod has none where its containers name no image."""
    model = pod.metadata.annotations.get(keys.MODEL, "").strip()
    containers = accelerator_containers(pod)
    digests = {
        status.name: found[1]
        for status in pod.status.container_statuses
        if (found := _DIGEST.search(status.image_id))
    }
    by_digest = [_image_digest(container) or digests.get(container.name, "") for container in containers]
    by_reference = [reference(container.image) for container in containers]
    trained = "training:" if pod.metadata.annotations.get(keys.TRAINING, "").strip() else ""
    named = [f"{trained}model:{model[:_LONGEST]}"] if model else []
    return tuple(dict.fromkeys([*named, *_images(by_digest), *_images(by_reference)]))


def accelerator_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the containers that request an accelerator; where none does, the first one.

    A pod that asks by annotation alone gets its share in the first container.
    """
    containers = pod.spec.containers
    return tuple(each for each in containers if uses_accelerator(each)) or containers[:1]


def uses_accelerator(container: Container) -> bool:
    """Return whether a container requests an accelerator by a resource or a claim."""
    resources = container.resources
    return bool(resources.claims) or any(map(is_accelerator, (*resources.limits, *resources.requests)))


def reference(image: str) -> str:
    """Return an image's reference with its tag; without a tag or digest it is `latest`, as for a kubelet."""
    last = image.rpartition("/")[2]
    return f"{image}:latest" if image and ":" not in last and "@" not in last else image


def _image_digest(container: Container) -> str:
    found = _DIGEST.search(container.image)
    return found[1] if found else ""


def _images(images: Iterable[str]) -> list[str]:
    """Return one key for the images of all containers, whatever their order; none where one is unknown."""
    every = sorted(set(images))
    return [f"image:{'+'.join(image[:_LONGEST] for image in every)}"] if every and all(every) else []
