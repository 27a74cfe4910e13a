"""A source learns from the cache which accelerators and pods there are, and where agents answer."""

import msgspec

from fairlead.cache.cache import SchedulerCache
from fairlead.cache.types import NODES, PODS
from fairlead.cache.use_index import AGENT_LABELS, agent_targets, device_index
from fairlead.cluster.watch.changes import ObjectChange
from fairlead.use import DeviceKey
from tests import catalogs
from tests.serve.scheduler.objects import claim, device_slice, node, pod, read


def cluster() -> SchedulerCache:
    """Return a node with two agents' pods, of which one is in another namespace, and a pod with a share."""
    cache = SchedulerCache(catalogs.shipped())
    machine = msgspec.to_builtins(node("n1"))
    machine["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.1"}]
    holder = pod("web", on="n1", mib=1024)
    agents = []
    for namespace, address in (("fairlead-system", "fd00::7"), ("tenant", "10.1.0.9")):
        body = msgspec.to_builtins(pod(f"agent-{namespace}", on="n1"))
        body["metadata"] |= {"namespace": namespace, "labels": AGENT_LABELS}
        body["spec"]["containers"][0]["ports"] = [{"name": "metrics", "containerPort": 19900}]
        body["status"]["podIP"] = address
        agents.append(read(PODS, body))
    held = claim("web-claim", holder, on="n1")
    for each in (read(NODES, machine), device_slice("n1"), holder, held, *agents):
        cache.on_event(ObjectChange(None, each))
    cache.sync()
    return cache


def test_the_agents_of_the_charts_namespace_are_read() -> None:
    (target,) = agent_targets(cluster(), "fairlead-system")
    assert (target.node, target.url) == ("n1", "http://[fd00::7]:19900/metrics")
    (target,) = agent_targets(cluster(), "fairlead-system", secure=True)
    assert target.url.startswith("https://")


def test_devices_hosts_and_pods_are_known() -> None:
    index = device_index(cluster(), "fairlead-system")
    assert index.memory(DeviceKey("n1", "gpu-1")) == 4 << 30
    assert index.node("10.0.0.1:9400") == "n1"
    assert index.node("unknown:1") == ""
    assert index.pod("default", "web") == "uid-web"
