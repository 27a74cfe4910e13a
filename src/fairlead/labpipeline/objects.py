"""What a measurement needs in a lab: namespaces, and a folder as a claim of each host. Pure."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.lab.node.namespaces import node_name
from fairlead.reproduce.thesis.application import EDGE, LOCAL

OPERATOR_NAMESPACE: Final = "fairlead-system"
NAMESPACE: Final = "cuts"
USER: Final = 10001
"""Of the pods of pipelines: the folders of their claims are theirs."""
SERVER_NUMBER, EDGE_NUMBER = 1, 2
"""Of the nodes: the control plane is on the first one, and so with the server."""
NODES: Final = {LOCAL: node_name(SERVER_NUMBER), EDGE: node_name(EDGE_NUMBER)}
"""By host: its node. The coordinator is on the server."""
TAINT: Final = "fairlead.dev/edge"
"""Keeps the pods of the cluster itself away from the edge, whose CPU and link are small."""
_SIZE: Final = "1Gi"
Json = dict[str, Any]


def pods(nodes: Mapping[str, str] = NODES) -> dict[str, Json]:
    """Return the keys of the pods in a pipeline's file, by host."""
    keys: dict[str, Json] = {
        host: {"nodeSelector": {"kubernetes.io/hostname": node}, "dataClaim": host}
        for host, node in nodes.items()
    }
    keys[EDGE]["tolerations"] = [{"key": TAINT, "operator": "Exists"}]
    return keys


def namespaces(*names: str) -> str:
    """Return namespaces."""
    return _listed([_object("Namespace", name, "") for name in names])


def claims(namespace: str, folders: Mapping[str, Path]) -> str:
    """Return a volume and a claim of a namespace for the folder of each host."""
    items: list[Json] = []
    for host, folder in folders.items():
        volume = volume_name(namespace, host)
        common: Json = {"storageClassName": "", "accessModes": ["ReadWriteOnce"]}
        offered = {
            "capacity": {"storage": _SIZE},
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": namespace, "name": host},
        }
        wanted = {"volumeName": volume, "resources": {"requests": {"storage": _SIZE}}}
        items.append(_object("PersistentVolume", volume, "") | {"spec": {**common, **offered}})
        items.append(_object("PersistentVolumeClaim", host, namespace) | {"spec": {**common, **wanted}})
    return _listed(items)


def volume_name(namespace: str, host: str) -> str:
    """Return the name of the volume of a host: volumes are of no namespace."""
    return f"{namespace}-{host}"


def _listed(items: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _object(kind: str, name: str, namespace: str) -> Json:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": meta}
