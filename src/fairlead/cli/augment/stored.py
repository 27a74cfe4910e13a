"""`fairlead augment list`, `show` and `delete`: augmentations that are in a cluster."""

import argparse
from typing import Any, Final

from fairlead.cli.augment import cluster, local
from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Column, Fit, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.shell import options as shared
from fairlead.cli.shell import resources
from fairlead.cli.shell.resources import ResourceAccess, with_resource

_LIST: Final = (
    Column("NAMESPACE", Fit.KEEP, wide=True),
    Column("NAME", Fit.KEEP, identity=True),
    *(Column(each, Fit.KEEP) for each in ("DEVICE", "SIZE", "QUOTA", "READY", "NODE")),
    Column("STATE", Fit.PROSE),
    Column("URL", Fit.KEEP, wide=True),
)
Json = dict[str, Any]


def add(verbs: Any) -> None:
    """Add the commands."""
    listing = verbs.add_parser(
        "list",
        help="list the augmentations of a namespace",
        description="List the augmentations of a namespace, or of all.",
    )
    listing.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    resources.add_cluster(listing)
    local.add_local(listing)
    shared.add_list(listing, _LIST)
    listing.set_defaults(run=_list)
    one = verbs.add_parser(
        "show",
        help="show how an augmentation is doing",
        description="Show the storage, pods and conditions of an augmentation. The exit code is 1 if it is "
        "not ready.",
    )
    cluster.add_name(one)
    local.add_local(one)
    one.set_defaults(run=_show)
    delete = verbs.add_parser(
        "delete",
        help="delete an augmentation, and keep its data",
        description="Delete an augmentation and everything that was made of it. Its claims stay with the "
        "data, unless --delete-data is given; an augmentation of the same name finds them.",
    )
    cluster.add_name(delete)
    local.add_local(delete)
    delete.add_argument("--delete-data", action="store_true", help="delete its claims, too: the data is lost")
    resources.add_wait(delete, "nothing else of it is left")
    delete.set_defaults(run=_delete)


def _list(options: argparse.Namespace) -> int:
    if options.local:
        return local.run_list(options)

    async def work(access: ResourceAccess) -> list[Json]:
        namespace = None if options.all_namespaces else access.namespace
        listed = await access.client.list(access.stored.client_kind(), namespace)
        return [each.document() for each in listed.items]

    found = with_resource(options, cluster.AUGMENTATION, "", work)
    found = sorted_by(found, options.sort_by, _LIST, _row, cluster.document)
    if options.output in ("json", "yaml"):
        show([cluster.document(each) for each in found], options.output)
        return 0
    rows = [_row(each) for each in found]
    show_list(_LIST, rows, options.output, headers=not options.no_headers, color=options.color)
    return 0


def _row(found: Json) -> tuple[str, ...]:
    said = cluster.document(found)
    return (
        said["namespace"],
        said["augmentation"],
        said["device"],
        said["size"],
        said["quota"] or "-",
        "yes" if said["ready"] else "no",
        said["node"] or "-",
        cluster.summary(found),
        said["url"] or "-",
    )


def _show(options: argparse.Namespace) -> int:
    if options.local:
        return local.run_show(options)
    from fairlead.ownedobjects import stored

    async def work(access: ResourceAccess) -> Json:
        return await access.read()

    found = cluster.with_augmentation(options, work)
    cluster.show_augmentation(found, options)
    return 0 if stored.is_true(found, "Ready") else 1


def _delete(options: argparse.Namespace) -> int:
    if options.local:
        return local.run_delete(options)
    seconds = resources.wait_seconds(options)

    async def work(access: ResourceAccess) -> tuple[Json, Json | None]:
        found = await access.read()
        kind = access.stored.client_kind()
        # The choice of this command counts, whatever the resource said before.
        patch = {"spec": {"deleteData": options.delete_data}}
        await access.client.patch(kind, access.name, patch, access.namespace, field_manager=cluster.MANAGER)
        await access.client.delete(kind, access.name, access.namespace)
        left: Json | None = found
        if options.wait:
            with progress(f"deleting {access.namespace}/{access.name}") as bar:
                left = await access.wait(
                    seconds, lambda now: now is None, lambda now: bar.set_status(cluster.summary(now))
                )
        return found, left

    found, left = cluster.with_augmentation(options, work)
    _report(options, found, is_gone=left is None)
    return 0 if left is None or not options.wait else 1


def _report(options: argparse.Namespace, found: Json, *, is_gone: bool) -> None:
    claims = [each["name"] for each in cluster.document(found)["claims"]]
    kept = [] if options.delete_data else claims
    name = f"{found['metadata']['namespace']}/{found['metadata']['name']}"
    if options.output != "table":
        show({"augmentation": name, "deleted": is_gone, "kept_claims": kept}, options.output)
        return
    is_late = options.wait and not is_gone
    text = f"{name} {'deleted' if is_gone else 'is being deleted'}"
    lines = [f"its data stays in {', '.join(kept)}; kubectl delete pvc deletes it"] if kept else []
    show_page(Page.of(Text(text, Tone.WARN if is_late else None), *lines), options.color)
