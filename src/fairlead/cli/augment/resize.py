"""`fairlead augment resize`, `rotate` and `rightsize`: change an augmentation."""

import argparse
from typing import Any, Final

from fairlead.cli.augment import cluster, local
from fairlead.cli.augment.create import amount
from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Column, Fit
from fairlead.cli.shell import options as shared
from fairlead.cli.shell import resources
from fairlead.cli.shell.resources import ResourceAccess, with_resource
from fairlead.errors import AugmentationError
from fairlead.units import format_quantity, parse_quantity

_SIZES: Final = (
    Column("NAMESPACE", Fit.KEEP, wide=True),
    Column("NAME", Fit.KEEP, identity=True),
    *(Column(each, Fit.KEEP) for each in ("SIZE", "USED", "PEAK", "NEEDED", "EXCESS")),
    Column("COMMAND", Fit.KEEP),
)
_FAILED: Final = ("CannotGrow", "ShrinkBelowUse")
Json = dict[str, Any]


def add(verbs: Any) -> None:
    """Add the commands."""
    resize = verbs.add_parser(
        "resize",
        help="give a device more storage, or less",
        description="Change the size of an augmentation. A larger one grows the claim; a smaller one is a "
        "quota at once, and never less than what is used. With --reclaim the data moves to a claim of the "
        "smaller size as well. With --wait the exit code is 1 if it is not so in time.",
    )
    cluster.add_name(resize)
    resize.add_argument("size", metavar="SIZE", help="how much the device may store: 20Gi")
    resize.add_argument("--fast", metavar="SIZE", help="the part of it on the fast tier")
    resize.add_argument(
        "--reclaim",
        action="store_true",
        help="move the data to a smaller claim: it is copied while the store serves, then writes are refused "
        "and the application is stopped until every byte was compared and the new claim serves",
    )
    local.add_local(resize)
    resources.add_wait(resize, "the size is in force, or cannot be")
    resize.set_defaults(run=_resize)
    rotate = verbs.add_parser(
        "rotate",
        help="replace the token of a store",
        description="Have another token made for the store of an augmentation. The one before is "
        "accepted for ten more minutes. Devices that have joined rotate their own credentials.",
    )
    cluster.add_name(rotate)
    local.add_local(rotate)
    resources.add_wait(rotate, "the operator has made it")
    rotate.set_defaults(run=_rotate)
    rightsize = verbs.add_parser(
        "rightsize",
        help="find augmentations that have more storage than they need",
        description="Compare the size of augmentations with the most that was used, and a quarter more.",
    )
    rightsize.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    resources.add_cluster(rightsize)
    shared.add_list(rightsize, _SIZES)
    rightsize.set_defaults(run=_rightsize)


def _resize(options: argparse.Namespace) -> int:
    if options.local and options.reclaim:
        raise AugmentationError(
            "--reclaim: a session of this machine has a folder, and no claim to shrink",
            "leave it out: the quota is smaller at once, and free space is the machine's",
        )
    if options.local:
        return local.run_resize(options)
    if options.reclaim and options.fast is not None:
        raise AugmentationError(
            "--reclaim: data on two tiers is not moved to a smaller claim",
            "leave it out: the quota is smaller",
        )
    seconds, size = resources.wait_seconds(options), amount("SIZE", options.size)
    fast = amount("--fast", options.fast) if options.fast is not None else None

    async def work(access: ResourceAccess) -> Json:
        before = await access.read()
        _check_use(before, size)
        storage: Json = {"size": format_quantity(size)} | ({"fast": format_quantity(fast)} if fast else {})
        storage |= _reclaim(before, size, is_asked=options.reclaim)
        return await _change(access, {"storage": storage})

    found = _waited(options, seconds, work, _is_resized)
    cluster.show_augmentation(found, options)
    return (
        0
        if not options.wait or (_is_resized(found) and _reason(found) not in _FAILED and _is_moved(found))
        else 1
    )


def _reclaim(found: Json, size: int, *, is_asked: bool) -> Json:
    """Return the field that asks for a move, or gives one up; refuse a claim that is too small."""
    from fairlead.augmentobjects.moves import needed_for

    storage, status = found["spec"]["storage"], found.get("status") or {}
    if not is_asked:
        return {"reclaim": 0} if storage.get("reclaim") else {}
    if storage.get("fast"):
        raise AugmentationError(
            "--reclaim: data on two tiers is not moved to a smaller claim",
            "leave it out: the quota is smaller",
        )
    needed = needed_for(parse_quantity(str(status.get("used") or "0")))
    if needed > size:
        raise AugmentationError(
            f"{status['used']} are in use, and with some room they need {format_quantity(needed)}, more than "
            f"{format_quantity(size)}: nothing was changed",
            "remove files first, or ask for more",
        )
    last = max(storage.get("reclaim") or 0, (status.get("reclaim") or {}).get("request") or 0)
    return {"reclaim": last + 1}


def _is_moved(found: Json) -> bool:
    """Return whether a move that was asked for is done."""
    asked = found["spec"]["storage"].get("reclaim")
    return not asked or _move_phase(found) == "Done"


def _move_phase(found: Json) -> str:
    """Return how far the move of the present request is; empty: nobody has looked at it yet."""
    said = (found.get("status") or {}).get("reclaim") or {}
    asked = found["spec"]["storage"].get("reclaim")
    return str(said.get("phase") or "") if said.get("request") == asked else ""


def _check_use(found: Json, size: int) -> None:
    """Refuse a size below what is used: the store would take no more, and the size would be a lie."""
    used = (found.get("status") or {}).get("used")
    if used and parse_quantity(str(used)) > size:
        raise AugmentationError(
            f"{used} are in use, more than {format_quantity(size)}: nothing was changed",
            "remove files first, or ask for more",
        )


def _rotate(options: argparse.Namespace) -> int:
    from fairlead.ownedobjects import stored

    if options.local:
        return local.run_rotate(options)
    seconds = resources.wait_seconds(options)

    async def work(access: ResourceAccess) -> Json:
        found = await access.read()
        return await _change(access, {"rotation": int(found["spec"].get("rotation") or 0) + 1})

    found = _waited(options, seconds, work, lambda now: now is None or stored.is_observed(now))
    cluster.show_augmentation(found, options)
    return 0 if not options.wait or stored.is_observed(found) else 1


async def _change(access: ResourceAccess, spec: Json) -> Json:
    changed = await access.client.patch(
        access.stored.client_kind(),
        access.name,
        {"spec": spec},
        access.namespace,
        field_manager=cluster.MANAGER,
    )
    return changed.document()


def _waited(options: argparse.Namespace, seconds: float, work: Any, is_over: Any) -> Json:
    """Return an augmentation after a change, and with --wait once that is in force."""

    async def inside(access: ResourceAccess) -> Json:
        found: Json = await work(access)
        if not options.wait:
            return found
        with progress(f"changing {access.namespace}/{access.name}") as bar:
            waited = await access.wait(seconds, is_over, lambda now: bar.set_status(cluster.summary(now)))
        return waited or found

    return cluster.with_augmentation(options, inside)


def _reason(found: Json) -> str:
    from fairlead.ownedobjects import stored

    return str(stored.condition(found, "Sized").get("reason") or "")


def _is_resized(found: Json | None) -> bool:
    """Return whether a wait is over: the size is in force, or cannot be as it is."""
    if found is None or _reason(found) in _FAILED:
        return True
    has_moved = not found["spec"]["storage"].get("reclaim") or _move_phase(found) in ("Done", "Failed")
    return _reason(found) == "AsAsked" and has_moved


def _rightsize(options: argparse.Namespace) -> int:
    async def work(access: ResourceAccess) -> list[Json]:
        namespace = None if options.all_namespaces else access.namespace
        listed = await access.client.list(access.stored.client_kind(), namespace)
        return [_sizes(each.document()) for each in listed.items]

    found = with_resource(options, cluster.AUGMENTATION, "", work)
    found = sorted_by(found, options.sort_by, _SIZES, lambda each: tuple(each.values()), dict)
    if options.output in ("json", "yaml"):
        show(found, options.output)
        return 0
    rows = [tuple(value or "-" for value in each.values()) for each in found]
    show_list(_SIZES, rows, options.output, headers=not options.no_headers, color=options.color)
    return 0


def _sizes(found: Json) -> dict[str, str]:
    """Return what an augmentation has, uses and needs."""
    from fairlead.augmentobjects.rightsize import excess_of, needed_size

    said = cluster.document(found)
    size, peak = parse_quantity(said["size"]), said["peak"]
    needed = needed_size(parse_quantity(peak)) if peak else None
    excess = excess_of(size, needed) if needed is not None else 0
    words = f"fairlead augment resize {said['augmentation']} {format_quantity(needed or 0)}"
    return {
        "namespace": said["namespace"],
        "augmentation": said["augmentation"],
        "size": said["size"],
        "used": said["used"],
        "peak": peak,
        "needed": format_quantity(needed) if needed is not None else "",
        "excess": format_quantity(excess) if excess else "",
        "command": words if excess else "",
    }
