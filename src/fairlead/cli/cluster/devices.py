"""`fairlead devices`: the devices of all ResourceSlices, and whether a selector matches each."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Tone
from fairlead.cli.shell import options as shared

if TYPE_CHECKING:
    from fairlead.manifest.files.collect import FoundObject, FoundObjects
    from fairlead.manifest.node.selection import SelectorMatch, SlicedDevice

    MatchedDevice = tuple[SlicedDevice, SelectorMatch]

_REQUESTS: Final = Column("REQUESTS")
_ERROR: Final = Column("ERROR", Fit.PROSE)
_HEAD: Final = (
    Column("NODE", Fit.KEEP),
    Column("DRIVER"),
    Column("POOL"),
    Column("DEVICE", Fit.KEEP),
    Column("MATCHES", Fit.KEEP),
    _REQUESTS,
    _ERROR,
    Column("ATTRIBUTES", Fit.PROSE, wide=True),
    Column("CAPACITY", Fit.PROSE, wide=True),
)
_GET: Final = (
    "kubectl get resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates -A -o json > FILE"
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "devices",
        help="list the devices that claims can get, and which of them a selector matches",
        description="List the devices of all ResourceSlices, of a cluster or of a file, and whether a "
        "selector (CEL) matches each. A device must match all of --select, --class and --claim.",
    )
    command.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        help="read objects that kubectl wrote as JSON or YAML; - is the standard input",
    )
    command.add_argument("--select", metavar="CEL", help="a selector, as in a claim or a DeviceClass")
    command.add_argument(
        "--class", dest="class_name", metavar="NAME", help="the selectors of this DeviceClass"
    )
    command.add_argument(
        "--claim",
        metavar="NAME",
        help="the requests of this ResourceClaim or ResourceClaimTemplate, each with its class's selectors",
    )
    command.add_argument(
        "-n",
        "--namespace",
        metavar="NS",
        help="the claim's namespace (default: the context's; in a file: default)",
    )
    shared.add_cluster(command)
    shared.add_list(command, _HEAD)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.manifest.node import selection

    # Before any object is read: an expression that does not compile fails without a cluster.
    selectors = [] if options.select is None else [selection.compile_at("--select", options.select)]
    with progress("reading devices"):
        objects, namespace = _read_objects(options)
    devices = selection.sliced_devices(objects)
    if options.class_name is not None:
        selectors += selection.class_selectors(objects, options.class_name)
    alternatives = [selection.Alternative("", tuple(selectors))]
    if options.claim is not None:
        requests = selection.claim_alternatives(objects, *_parse_claim(options, namespace))
        alternatives = [
            selection.Alternative(request.request, (*selectors, *request.selectors)) for request in requests
        ]
    _print(options, [(device, selection.match_device(alternatives, device.device)) for device in devices])
    return 0


def _read_objects(options: argparse.Namespace) -> "tuple[FoundObjects, str]":
    """Return the objects with devices and selectors, and the namespace of a claim that names none."""
    if options.file is not None:
        return _read_file(options.file), "default"
    import asyncio

    from fairlead.cluster.config import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    namespace = config.namespace or "default"
    return asyncio.run(_list_cluster(config, options, _parse_claim(options, namespace)[0])), namespace


def _read_file(path: str) -> "FoundObjects":
    from fairlead.errors import ManifestError
    from fairlead.manifest.files import text
    from fairlead.manifest.files.collect import collect
    from fairlead.manifest.types import kinds as device_kinds

    documents = text.read(path)
    if not documents:
        raise ManifestError(f"{path}: the file is empty", _GET)
    objects = collect(documents, device_kinds.KINDS)
    # A cluster without devices gives an empty list; a file with other objects only is the wrong file.
    if not objects.entries and any(value.get("items") != [] for _, value in documents):
        raise ManifestError(f"{path}: no ResourceSlice in it", _GET)
    return objects


async def _list_cluster(config: Any, options: argparse.Namespace, namespace: str) -> "FoundObjects":
    from fairlead.cluster.client import Client
    from fairlead.manifest.files.collect import FoundObjects
    from fairlead.manifest.types import kinds as device_kinds

    kinds = [device_kinds.SLICE]
    if options.class_name is not None or options.claim is not None:
        kinds.append(device_kinds.CLASS)
    if options.claim is not None:
        kinds += [device_kinds.CLAIM, device_kinds.TEMPLATE]
    async with Client.connect(config) as client:
        return FoundObjects.of([item for kind in kinds for item in await _list_kind(client, kind, namespace)])


async def _list_kind(client: Any, kind: str, namespace: str) -> "list[FoundObject]":
    """Return a cluster's objects of a kind, in the newest API version that it serves."""
    from fairlead.errors import MissingApiError
    from fairlead.manifest.files.collect import FoundObject
    from fairlead.manifest.types.kinds import VERSIONS, resource_kind

    missing: MissingApiError | None = None
    for version in VERSIONS:
        resource = resource_kind(kind, version)
        try:
            listing = await client.list(resource, namespace if resource.namespaced else None)
        except MissingApiError as error:
            missing = missing or error
            continue
        return [FoundObject(f"{kind} {item.metadata.name}", kind, item) for item in listing.items]
    assert missing is not None
    raise missing


def _parse_claim(options: argparse.Namespace, default_namespace: str) -> tuple[str, str]:
    """Return the namespace and the name of the claim; `shop/gpu` names both."""
    from fairlead.errors import SettingsError

    namespace, slash, name = (options.claim or "").rpartition("/")
    if slash and options.namespace not in (None, namespace):
        raise SettingsError(f"{options.claim} is not in the namespace {options.namespace}", "leave one out")
    return (namespace if slash else options.namespace or default_namespace), name


def _print(options: argparse.Namespace, devices: "list[MatchedDevice]") -> None:
    claim = options.claim is not None
    devices = sorted_by(devices, options.sort_by, _HEAD, _row, lambda each: to_json(*each, claim=claim))
    if options.output in ("json", "yaml"):
        show({"devices": [to_json(*each, claim=claim) for each in devices]}, options.output)
        return
    if options.output == "name":
        names = [(f"{each.driver}/{each.pool}/{each.name}",) for each, match in devices if match.matches]
        show_list(("DEVICE",), names, "name", headers=False)
        return
    errors = any(match.error for _, match in devices)
    empty = {*(() if claim else (_REQUESTS,)), *(() if errors else (_ERROR,))}
    kept = [index for index, column in enumerate(_HEAD) if column not in empty]
    rows = [tuple(row[index] for index in kept) for row in map(_row, devices)]
    head = [_HEAD[index] for index in kept]
    headers = not options.no_headers
    show_list(head, rows, options.output, headers=headers, empty="no devices", color=options.color)


def to_json(device: "SlicedDevice", match: "SelectorMatch", *, claim: bool) -> dict[str, Any]:
    """Return a device, and whether the selectors match it, as a document."""
    document = {
        "node": device.node,
        "driver": device.driver,
        "pool": device.pool,
        "name": device.name,
        "matches": match.matches,
        "error": match.error,
    }
    return {**document, "requests": list(match.requests)} if claim else document


def _row(matched: "MatchedDevice") -> tuple[str | Cell, ...]:
    from fairlead.host import printable
    from fairlead.manifest.node.selection import format_device

    device, match = matched
    pool = f"{device.pool} (outdated)" if device.outdated else device.pool
    words = (device.node or "-", device.driver, pool, device.name)
    more = (", ".join(match.requests) or "-", match.error or "-", *format_device(device.facts))
    return (*map(printable, words), _match_cell(match), *map(printable, more))


def _match_cell(match: "SelectorMatch") -> Cell:
    if match.error and not match.matches:
        return Cell("error", tone=Tone.BAD)
    return Cell("yes", tone=Tone.GOOD) if match.matches else Cell("no")
