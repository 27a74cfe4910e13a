"""What viewers do to a cluster with their own credentials: cancel a pod, drain a node, change a size."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from fairlead.cluster.client import Client
from fairlead.cluster.config.types import AuthInfo, ClusterConfig
from fairlead.cluster.http.codec import encode_plain
from fairlead.cluster.kinds import NODES, PODS
from fairlead.dashboard.answers import CancelAction, DrainAction, RightsizeAction
from fairlead.dashboard.row_types import ApiAnswer
from fairlead.errors import AccessError, ClusterError, ConflictError, NotFoundError, TooManyRequestsError
from fairlead.manifest.types.live import LivePod
from fairlead.rightsize.change import NotChanged, change_of, patch_for
from fairlead.rightsize.owners import make_change, try_change
from fairlead.rightsize.report import Recommendation
from fairlead.units import pluralize

MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a pod that a kubelet made of a file: an eviction would not end it."""
AT_ONCE: Final = 8


def config_for(config: ClusterConfig, token: str) -> ClusterConfig:
    """Return the cluster with a person's token, and nothing of the server's own credentials."""
    return replace(config, login=AuthInfo(token=token), impersonate=None, user="")


async def act(
    config: ClusterConfig,
    action: ApiAnswer,
    pods: Sequence[LivePod],
    recommendations: Sequence[Recommendation] = (),
) -> str:
    """Do what an action asks with these credentials; `pods` are what it is about. Return what was done."""
    async with Client.connect(config, read_timeout=30.0) as client:
        if isinstance(action, CancelAction):
            return await _cancel(client, pods)
        if isinstance(action, DrainAction):
            return await _drain(client, action.node, pods)
        assert isinstance(action, RightsizeAction), "there are three actions"
        return await _rightsize(client, recommendations)


async def _cancel(client: Client, pods: Sequence[LivePod]) -> str:
    for pod in pods:
        meta = pod.metadata
        await client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
    return f"{', '.join('/'.join(pod.key) for pod in pods)} is being deleted"


async def _drain(client: Client, node: str, pods: Sequence[LivePod]) -> str:
    """Cordon a node, and evict its pods; budgets decide about each of them."""
    await client.patch(NODES, node, {"spec": {"unschedulable": True}})
    leaving = [pod for pod in pods if not pod.ended and not _stays(pod)]
    semaphore = asyncio.Semaphore(AT_ONCE)

    async def evict(pod: LivePod) -> str:
        async with semaphore:
            return await _evict(client, pod)

    results = await asyncio.gather(*map(evict, leaving))
    refused = sorted({text for text in results if text})
    evicted = sum(not text for text in results)
    done = f"{node} is cordoned; {pluralize(evicted, 'pod')} of {len(leaving)} evicted"
    return f"{done}; {'; '.join(refused[:3])}" if refused else done


def _stays(pod: LivePod) -> bool:
    """Say whether a pod belongs to its node."""
    owned = any(owner.controller and owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
    return owned or MIRROR in pod.metadata.annotations


async def _evict(client: Client, pod: LivePod) -> str:
    """Evict a pod; return why not, or an empty text."""
    meta = pod.metadata
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": {"preconditions": {"uid": meta.uid}},
    }
    try:
        path = f"{PODS.path(meta.namespace, meta.name)}/eviction"
        await client.request("POST", path, body=encode_plain(body))
    except NotFoundError:
        return ""
    except AccessError:
        return "you may not evict some of its pods"
    except TooManyRequestsError:
        return "disruption budgets keep some of its pods: drain it again later"
    except ClusterError as error:
        return str(error)
    return ""


async def _rightsize(client: Client, recommendations: Sequence[Recommendation]) -> str:
    """Write the size of one recommendation to the owner of its pods, after a dry run of the server."""
    made: list[Any] = [change_of(each) for each in recommendations]
    for change in made:
        if isinstance(change, NotChanged):
            raise ConflictError(change.reason, "")
    if not recommendations:
        raise NotFoundError("the proposal is gone", "look again")
    key = recommendations[0].container.workload
    tried = await try_change(client, key, partial(_patch, key, made))
    if isinstance(tried, NotChanged):
        raise ConflictError(tried.reason, "")
    await make_change(client, tried)
    return f"{key} requests the proposed size: its pods are replaced"


def _patch(key: Any, changes: Sequence[Any], document: Any) -> Any:
    return patch_for(key, document, changes)
