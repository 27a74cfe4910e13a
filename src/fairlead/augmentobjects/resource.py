"""The Augmentation resource as values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.augmentation import AugmentationSpec, StorageRequest
from fairlead.errors import AugmentationError
from fairlead.ownedobjects.confined import USER, AcceleratorShare
from fairlead.reconcile import Manifest
from fairlead.units import Bytes, parse_quantity

SCHEDULER: Final = "fairlead"
ONE_NODE: Final = "ReadWriteOnce"
MANY_NODES: Final = "ReadWriteMany"


@dataclass(frozen=True, slots=True)
class Application:
    """What the application's pod has beyond its image, command and share."""

    compute: int | None = None
    """Percent of the accelerator's compute; None: no limit."""
    user: int = USER
    """Its user, which is the store's as well: both write the same files."""
    has_writable_root: bool = False
    ports: tuple[int, ...] = ()
    """Where it listens, for its Service."""
    resources: Manifest = field(default_factory=dict)
    pull_policy: str = ""


@dataclass(frozen=True, slots=True)
class Exposure:
    """How the device reaches the store."""

    type: str = "NodePort"
    hosts: tuple[str, ...] = ()
    """Names or addresses by which devices reach it, for its certificate; the first is in its URL."""
    node_port: int | None = None


@dataclass(frozen=True, slots=True)
class AugmentationResource:
    """One Augmentation of a cluster."""

    namespace: str
    name: str
    generation: int
    spec: AugmentationSpec
    application: Application | None = None
    """None: storage alone."""
    access_mode: str = ONE_NODE
    exposure: Exposure = Exposure()
    image: str = ""
    """Of the store; empty: that of the operator's release."""
    pull_policy: str = ""
    pull_secrets: tuple[str, ...] = ()
    scheduler: str = SCHEDULER
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Manifest, ...] = ()
    rotation: int = 0
    """Counted up to have another token made."""
    deletes_data: bool = False
    """Whether the data goes with the Augmentation."""
    reclaim: int = 0
    """Counted up to have the data moved to a claim of the size that is asked for; 0: it is not."""
    data_claim: int = 1
    """The number of the claim with the data, as observed."""

    @property
    def share(self) -> AcceleratorShare | None:
        """What the application takes of an accelerator."""
        memory = self.spec.accelerator_memory
        if memory is None or self.application is None:
            return None
        return AcceleratorShare(str(memory), self.application.compute)

    @property
    def user(self) -> int:
        """The user of its pods."""
        return self.application.user if self.application is not None else USER

    @property
    def is_on_one_node(self) -> bool:
        """Whether its pods must share a node."""
        return self.access_mode == ONE_NODE


def read_resource(manifest: Manifest) -> AugmentationResource:
    """Return the resource that a manifest describes; AugmentationError names what cannot be read."""
    meta, body = manifest["metadata"], manifest.get("spec") or {}
    storage, program = body.get("storage") or {}, body.get("application")
    return AugmentationResource(
        meta.get("namespace") or "default",
        meta["name"],
        int(meta.get("generation") or 0),
        _read_spec(meta["name"], body, storage, program or {}),
        _read_application(program) if program else None,
        storage.get("accessMode") or ONE_NODE,
        _read_exposure(body.get("service") or {}),
        image=body.get("image") or "",
        pull_policy=body.get("imagePullPolicy") or "",
        pull_secrets=tuple(each["name"] for each in body.get("imagePullSecrets") or ()),
        scheduler=body.get("schedulerName") or SCHEDULER,
        node_selector=body.get("nodeSelector") or {},
        tolerations=tuple(body.get("tolerations") or ()),
        rotation=int(body.get("rotation") or 0),
        deletes_data=bool(body.get("deleteData")),
        reclaim=int(storage.get("reclaim") or 0),
    )


def _read_spec(
    name: str, body: Mapping[str, Any], storage: Mapping[str, Any], program: Mapping[str, Any]
) -> AugmentationSpec:
    memory = (program.get("accelerator") or {}).get("memory")
    return AugmentationSpec(
        name,
        str(body.get("device") or ""),
        str(program.get("image") or ""),
        tuple(map(str, program.get("command") or ())),
        StorageRequest(
            _amount("storage.size", storage.get("size")),
            _amount("storage.fast", storage["fast"]) if "fast" in storage else None,
            tuple(storage.get("classes") or ()),
        ),
        _amount("application.accelerator.memory", memory) if memory is not None else None,
        program.get("digest") or None,
        {each["name"]: str(each.get("value") or "") for each in program.get("env") or ()},
    )


def _read_application(body: Mapping[str, Any]) -> Application:
    return Application(
        (body.get("accelerator") or {}).get("compute"),
        int(body.get("user", USER)),
        bool(body.get("writableRoot")),
        tuple(map(int, body.get("ports") or ())),
        body.get("resources") or {},
        body.get("imagePullPolicy") or "",
    )


def _read_exposure(body: Mapping[str, Any]) -> Exposure:
    port = body.get("nodePort")
    return Exposure(
        body.get("type") or "NodePort", tuple(body.get("hosts") or ()), int(port) if port else None
    )


def _amount(where: str, value: object) -> Bytes:
    """Return an amount of storage or memory."""
    try:
        amount = parse_quantity(str(value))
    except ValueError as error:
        raise AugmentationError(f"{where}: {error}", "write it like 10Gi") from None
    if amount <= 0:
        raise AugmentationError(f"{where}: {value} is nothing", "ask for at least 1Mi")
    return Bytes(amount)
