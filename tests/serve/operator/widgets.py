"""A small custom resource for tests, and its controller: a Widget needs ConfigMaps and pods."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.keys import RETAINED_FOR
from fairlead.reconcile import Announcement, Manifest, Observed, PodPage, Reconciled, ResourceKind
from fairlead.settings.operator import OperatorSettings

GROUP = "operator.test.fairlead.dev"
WIDGETS = ResourceKind(f"{GROUP}/v1", "Widget", "widgets")
CONFIG_MAPS = ResourceKind("v1", "ConfigMap", "configmaps")
PODS = ResourceKind("v1", "Pod", "pods")
NODES = ResourceKind("v1", "Node", "nodes", namespaced=False)
_TEXT = {"type": "string"}
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class WidgetController:
    """Wants `spec.configs` ConfigMaps with `spec.text`, and a pod for each name in `spec.pods`."""

    resource = WIDGETS
    owns = (CONFIG_MAPS, PODS)

    def __init__(self, watches: tuple[ResourceKind, ...] = ()) -> None:
        self.watches = watches
        self.passes = 0

    def reconcile(self, observed: Observed) -> Reconciled:
        """Return the objects of a widget; of a deleted one, ConfigMaps stay until the pods are gone."""
        self.passes += 1
        widget, pods = observed.resource, observed.owned[PODS]
        spec = widget["spec"]
        if spec.get("raise"):
            raise RuntimeError(spec["raise"])
        deleting = bool(widget["metadata"].get("deletionTimestamp"))
        configs = config_maps(widget)
        if spec.get("copy"):
            configs = [_as_it_is(each) for each in observed.owned[CONFIG_MAPS]] or configs
        if deleting:
            if spec.get("retain"):
                stays = frozenset(("ConfigMap", each["metadata"]["name"]) for each in configs)
                return Reconciled(keep=stays, is_finished=not pods)
            kept = configs if pods else ()
            return Reconciled(tuple(kept), is_finished=not pods)
        nodes = sum(len(observed.watched[kind]) for kind in self.watches)
        status = {
            "made": len(observed.owned[CONFIG_MAPS]) + len(pods),
            "text": spec.get("text"),
            **({"nodes": nodes} if self.watches else {}),
            **({"blocked": sorted(name for _, name in observed.conflicts)} if observed.conflicts else {}),
        }
        said = (Announcement("Normal", "Made", f"{len(configs)} configs"),) if configs else ()
        keep = frozenset(("Pod", name) for name in spec.get("keep", ()))
        force = frozenset(("Pod", name) for name in spec.get("force", ()))
        pages = {PodPage(address, 9090, "/status"): every for address, every in spec.get("pages", {}).items()}
        read = [each.error or each.body.decode() for _, each in sorted(observed.pages.items())]
        status |= {"pages": read} if pages else {}
        objects = (*configs, *_pods(widget))
        return Reconciled(objects, status, said, keep=keep, force=force, pages=pages)


def _as_it_is(live: Manifest) -> Manifest:
    """Return an object as a controller wants it that changes nothing."""
    kept = {
        key: live["metadata"][key] for key in ("name", "labels", "annotations") if key in live["metadata"]
    }
    return {**{key: live[key] for key in ("apiVersion", "kind", "data")}, "metadata": kept}


def config_maps(widget: Manifest) -> Sequence[Manifest]:
    """Return the ConfigMaps that a widget needs."""
    name, spec = widget["metadata"]["name"], widget["spec"]
    labels = {"labels": {RETAINED_FOR: f"widgets.{name}"}} if spec.get("retain") else {}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-{number}", **labels},
            "data": {"text": spec.get("text", "")},
        }
        for number in range(spec.get("configs", 0))
    ]


def _pods(widget: Manifest) -> list[Manifest]:
    name, spec = widget["metadata"]["name"], widget["spec"]
    container = {"name": "main", "image": spec.get("image", "one"), "ports": [{"containerPort": 80}]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{pod}", "labels": {"pod": pod}},
            "spec": {"containers": [container], "nodeSelector": {"none": "such"}},
        }
        for pod in spec.get("pods", ())
    ]


def widget(name: str, **spec: Any) -> dict[str, Any]:
    """Return a widget."""
    return {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def definition(labels: Mapping[str, str] | None = None, group: str = GROUP) -> dict[str, Any]:
    """Return the CustomResourceDefinition of widgets."""
    schema = {
        "type": "object",
        "properties": {"spec": _ANY, "status": {**_ANY, "properties": {"text": _TEXT}}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}", "labels": dict(labels or {})},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def controller(_: OperatorSettings) -> WidgetController:
    """Return the controller, as the table of controllers makes one."""
    return WidgetController()
