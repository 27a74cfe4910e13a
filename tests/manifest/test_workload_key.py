"""By which key a pod's measured use is learned."""

from typing import Any

import pytest

from fairlead.cluster.http import codec
from fairlead.manifest.pod.workload_key import workload_key, workload_keys
from fairlead.manifest.types.kubernetes import Pod

A, B = f"sha256:{'ab' * 32}", f"sha256:{'cd' * 32}"
GPU = {"limits": {"nvidia.com/gpu": "1"}}
CLAIM = {"claims": [{"name": "gpu"}]}
CPU = {"limits": {"cpu": "1"}}


def pod(*containers: tuple[str, str, dict[str, Any]], model: str = "", **image_ids: str) -> Pod:
    """Return a pod of containers (name, image, resources); its status has these image ids."""
    statuses = [{"name": name, "imageID": text} for name, text in image_ids.items()]
    listed = [{"name": name, "image": image, "resources": more} for name, image, more in containers]
    annotations = {"fairlead.dev/model": model} if model else {}
    document = {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": listed},
        "status": {"containerStatuses": statuses},
    }
    return codec.from_document(Pod, document)


APP = ("main", "example.org/app:v1", GPU)
PROXY = ("proxy", "example.org/proxy:v9", CPU)


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (pod(APP), ["image:example.org/app:v1"]),
        (pod(APP, main=f"example.org/app@{A}"), [f"image:{A}", "image:example.org/app:v1"]),
        (pod(APP, main=f"docker-pullable://app@{A}"), [f"image:{A}", "image:example.org/app:v1"]),
        (pod(APP, main=A), [f"image:{A}", "image:example.org/app:v1"]),
        (pod(APP, main="sha256:short"), ["image:example.org/app:v1"]),
        (pod(("main", f"app:v1@{A}", GPU), main=f"app@{B}"), [f"image:{A}", f"image:app:v1@{A}"]),
        (pod(("main", "localhost:5000/app", GPU)), ["image:localhost:5000/app:latest"]),
        (pod(APP, PROXY, proxy=B), ["image:example.org/app:v1"]),
        (pod(PROXY, ("main", "b", CLAIM), ("side", "a", GPU)), ["image:a:latest+b:latest"]),
        (pod(("main", "b", GPU), ("side", "a", GPU), main=A), ["image:a:latest+b:latest"]),
        (pod(PROXY, ("other", "x", CPU)), ["image:example.org/proxy:v9"]),
        (pod(APP, model=" resnet ", main=A), ["model:resnet", f"image:{A}", "image:example.org/app:v1"]),
        (pod(("main", "", GPU)), []),
        (pod(), []),
    ],
)
def test_keys_of_a_pod_best_first(given: Pod, keys: list[str]) -> None:
    assert list(workload_keys(given)) == keys
    assert workload_key(given) == (keys[0] if keys else "")
