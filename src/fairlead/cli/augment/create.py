"""`fairlead augment create`: one command for storage, an application beside it, and its share."""

import argparse
import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.augment import cluster, local
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Column, Fit, Table
from fairlead.cli.output.terminal import Page, show_page
from fairlead.cli.shell import resources
from fairlead.cli.shell.resources import ResourceAccess
from fairlead.errors import AlreadyExistsError, AugmentationError, SettingsError
from fairlead.units import Bytes, fault, parse_quantity

if TYPE_CHECKING:
    from fairlead.augmentation import AugmentationSpec
    from fairlead.augmentobjects.resource import Application, AugmentationResource
    from fairlead.reconcile import Reconciled

_OBJECTS: Final = tuple(Column(each, Fit.KEEP) for each in ("KIND", "NAME"))
_SERVICES: Final = ("NodePort", "LoadBalancer", "ClusterIP")
_MODES: Final = ("ReadWriteOnce", "ReadWriteMany")
Json = dict[str, Any]


def add(verbs: Any) -> None:
    """Add the command."""
    command = verbs.add_parser(
        "create",
        help="lend a device a slice of a cluster, or of this machine",
        description="Store an Augmentation in a cluster: `fairlead serve operator` makes its volume, the "
        "store that the device reaches, and the application beside it. With --wait the exit code is 1 if "
        "it is not ready in time. With --local the session is processes and folders of this machine.",
    )
    cluster.add_name(command)
    _add_device(command)
    _add_application(command)
    _add_service(command)
    command.add_argument(
        "--dry-run", action="store_true", help="show the objects that it would become, and ask no cluster"
    )
    local.add_create(command)
    resources.add_wait(command, "the store answers and the application runs")
    command.set_defaults(run=_create)


def _add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", metavar="NAME", required=True, help="the device that it is for")
    command.add_argument("--size", metavar="SIZE", required=True, help="how much it may store: 10Gi")
    command.add_argument("--fast", metavar="SIZE", help="the part of it on the fast tier (default: one tier)")
    command.add_argument(
        "--class",
        dest="classes",
        metavar="NAME",
        action="append",
        default=[],
        help="the storage class (default: the cluster's); with --fast twice: of the fast and the slow tier",
    )
    command.add_argument(
        "--access-mode",
        choices=_MODES,
        default=_MODES[0],
        help="ReadWriteOnce: store and application share a node; ReadWriteMany: they may be on any two "
        "(default: %(default)s)",
    )


def _add_application(command: argparse.ArgumentParser) -> None:
    command.add_argument("--image", metavar="IMAGE", default="", help="the application (default: none)")
    command.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="of the application; may be repeated"
    )
    command.add_argument("--digest", metavar="SHA256", help="of the application as it is on the device")
    command.add_argument("--gpu-mem", metavar="SIZE", help="its share of an accelerator: 2Gi")
    command.add_argument("--gpu-compute", metavar="PERCENT", type=int, help="with --gpu-mem: of its compute")
    command.add_argument(
        "--port", metavar="N", type=int, action="append", default=[], help="where it listens; may be repeated"
    )
    command.add_argument("--user", metavar="UID", type=int, help="the user that it and the store run as")
    command.add_argument(
        "--writable-root", action="store_true", help="it may write to the file system of its image"
    )
    command.add_argument(
        "--command",
        dest="program",
        metavar="TEXT",
        default="",
        help="its program and arguments, quoted as in a shell (default: those of the image)",
    )


def _add_service(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--service",
        choices=_SERVICES,
        default=_SERVICES[0],
        help="how the device reaches the store (default: %(default)s)",
    )
    command.add_argument(
        "--host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name or address by which the device reaches it, for its certificate; may be repeated",
    )
    command.add_argument("--store-image", metavar="IMAGE", default="", help="the image of the store")
    command.add_argument(
        "--scheduler",
        metavar="NAME",
        default="fairlead",
        help="the scheduler of the pods (default: %(default)s)",
    )


def _create(options: argparse.Namespace) -> int:
    if options.local:
        return local.run_create(options)
    seconds = resources.wait_seconds(options)
    wanted = _wanted(options, options.namespace or "default")
    decided = _decide(wanted)
    if options.dry_run:
        _show_dry(options, wanted, decided)
        return 0

    async def work(access: ResourceAccess) -> Json:
        found = await _store(access, _wanted(options, access.namespace))
        if not options.wait:
            return found
        with progress(f"creating {access.namespace}/{access.name}") as bar:
            waited = await access.wait(seconds, _is_over, lambda now: bar.set_status(cluster.summary(now)))
        return waited or found

    found = cluster.with_augmentation(options, work)
    return _report(options, found)


def _wanted(options: argparse.Namespace, namespace: str) -> "AugmentationResource":
    from fairlead.augmentobjects.resource import AugmentationResource, Exposure

    return AugmentationResource(
        namespace,
        options.name,
        0,
        _spec(options),
        _application(options),
        options.access_mode,
        Exposure(options.service, tuple(options.host)),
        image=options.store_image,
        scheduler=options.scheduler,
    )


def _spec(options: argparse.Namespace) -> "AugmentationSpec":
    from fairlead.augmentation import AugmentationSpec, StorageRequest

    size = amount("--size", options.size)
    fast = amount("--fast", options.fast) if options.fast is not None else None
    memory = amount("--gpu-mem", options.gpu_mem) if options.gpu_mem is not None else None
    pairs = [each.partition("=") for each in options.env]
    if any(not name or not sign for name, sign, _ in pairs):
        raise SettingsError("--env: a variable has a name and a value", "write it like MODE=fast")
    return AugmentationSpec(
        options.name,
        options.device,
        options.image,
        _words(options.program),
        StorageRequest(size, fast, tuple(options.classes)),
        memory,
        options.digest,
        {name: value for name, _, value in pairs},
    )


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise SettingsError(f"--command {text}: {error}", "quote it as in a shell") from None


def _application(options: argparse.Namespace) -> "Application | None":
    from fairlead.augmentobjects.resource import Application

    if not options.image:
        given = options.program or options.env or options.gpu_mem or options.port or options.digest
        if given:
            raise SettingsError("these options are about an application, and there is none", "add --image")
        return None
    default = Application()
    return Application(
        options.gpu_compute,
        default.user if options.user is None else options.user,
        options.writable_root,
        tuple(options.port),
    )


def amount(option: str, text: str) -> Bytes:
    """Return an amount of storage or memory; SettingsError."""
    try:
        value = parse_quantity(text)
    except ValueError as error:
        raise SettingsError(f"{option} {text}: {fault(error)}", "write it like 10Gi") from None
    if value <= 0:
        raise SettingsError(f"{option} {text}: that is nothing", "ask for at least 1Mi")
    return Bytes(value)


def _decide(wanted: "AugmentationResource") -> "Reconciled":
    """Return what the operator would make of it; AugmentationError: nothing."""
    from fairlead.augmentobjects.controller import AugmentationController
    from fairlead.augmentobjects.from_spec import resource_of
    from fairlead.compat.times import UTC
    from fairlead.ownedobjects.certificates import NoIssuer
    from fairlead.reconcile import Observed

    observed = Observed(resource_of(wanted), {}, {}, datetime.now(UTC))
    decided = AugmentationController(NoIssuer(), is_shown=True).reconcile(observed)
    assert decided.status is not None, "a new resource gets a status"
    accepted = next(each for each in decided.status["conditions"] if each["type"] == "Accepted")
    if accepted["status"] != "True":
        raise AugmentationError(str(accepted["message"]), "fairlead augment create --help")
    return decided


async def _store(access: ResourceAccess, wanted: "AugmentationResource") -> Json:
    from fairlead.augmentobjects.from_spec import resource_of

    kind = access.stored.client_kind()
    try:
        made = await access.client.create(kind, resource_of(wanted), access.namespace)
    except AlreadyExistsError as error:
        name = access.name
        raise AlreadyExistsError(
            f"augmentation {access.namespace}/{name} exists already",
            f"fairlead augment show {name} says how it is; resize, rotate and delete change it",
            code=error.code,
            reason=error.reason,
        ) from None
    return made.document()


def _is_over(found: Json | None) -> bool:
    """Return whether a wait is over: it can be used, or never will as it is."""
    from fairlead.ownedobjects import stored

    if found is None or stored.is_true(found, "Ready"):
        return True
    return stored.condition(found, "Accepted").get("status") == "False"


def _report(options: argparse.Namespace, found: Json) -> int:
    from fairlead.ownedobjects import stored

    name = f"{found['metadata']['namespace']}/{found['metadata']['name']}"
    if options.wait or options.output != "table":
        cluster.show_augmentation(found, options, f"{name} created")
    else:
        hint = f"fairlead augment show {options.name} says how it is doing"
        show_page(Page.of(f"{name} created", hint), options.color)
    return 0 if not options.wait or stored.is_true(found, "Ready") else 1


def _show_dry(options: argparse.Namespace, wanted: "AugmentationResource", decided: "Reconciled") -> None:
    from fairlead.augmentobjects.from_spec import resource_of

    resource, objects = resource_of(wanted), decided.objects
    if options.output != "table":
        shown = [
            dict(each) | ({"data": dict.fromkeys(each["data"], "")} if each["kind"] == "Secret" else {})
            for each in objects
        ]
        show({"augmentation": resource, "objects": shown}, options.output)
        return
    rows = [(each["kind"], each["metadata"]["name"]) for each in (resource, *objects)]
    head = f"{wanted.namespace}/{wanted.name} would become {len(rows)} objects (nothing was stored)"
    show_page(Page.of(head, "", Table.of(_OBJECTS, rows)), options.color)
