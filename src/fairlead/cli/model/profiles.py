"""`fairlead profiles`: measurements of models on devices, on this machine and in a cluster."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fairlead.cli.model import profiles_move
from fairlead.cli.model.profiles_cluster import add_source, folder_of, in_cluster, load_entries
from fairlead.cli.output.listing import sorted_by
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Fit, Table
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError, UserError
from fairlead.units import format_bytes

if TYPE_CHECKING:
    from fairlead.calibration import ObservedUse
    from fairlead.cli.model.profiles_cluster import SetupProfiles

_HEAD = (
    Column("ID", Fit.KEEP),
    *map(Column, ("SETUP", "HOST", "MODELS", "SEEN", "MADE")),
    Column("DEVICE", wide=True),
    Column("RUNTIME", wide=True),
    Column("PRECISION", wide=True),
)
_SEEN_HEAD = ("SEEN", "MEDIAN", "P90", "RUNS", "OF ESTIMATE", "MEMORY", "POWER", "RAMP")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "profiles",
        help="list, show, move or delete measurements of models on devices",
        description="Profiles hold the measurements of `fairlead calibrate` and of real use. They are files "
        "on this machine, and objects (ModelProfile) in a cluster.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="list the setups that have profiles")
    listing.set_defaults(run=run_list)
    showing = verbs.add_parser("show", help="show the profiles of one setup")
    showing.add_argument("setup", metavar="SETUP", help="an id that `list` prints, or the start of one")
    showing.set_defaults(run=run_show)
    deleting = verbs.add_parser("delete", help="delete the profiles of setups")
    deleting.add_argument("setup", metavar="SETUP", nargs="+", help="an id that `list` prints")
    deleting.add_argument("--yes", action="store_true", help="confirm; without this nothing is deleted")
    deleting.set_defaults(run=run_delete)
    for verb in (listing, showing, deleting):
        add_source(verb)
    shared.add_list(listing, _HEAD)
    for verb in (showing, deleting):
        shared.add_output(verb)
    profiles_move.add(verbs)


def run_list(options: argparse.Namespace) -> int:
    """List the setups."""
    entries = sorted_by(_load_entries(options), options.sort_by, _HEAD, _row, _summary)
    if options.output in ("json", "yaml"):
        show([_summary(entry) for entry in entries], options.output)
        return 0
    rows = [_row(entry) for entry in entries]
    headers = not options.no_headers
    show_list(_HEAD, rows, options.output, headers=headers, empty="no profiles", color=options.color)
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Show one setup."""
    entry = find_setup(_load_entries(options), options.setup)
    if options.output != "table":
        calibration = entry.calibration.to_json() if entry.calibration else None
        seen = [each.to_json() for each in entry.seen]
        show({"id": entry.id, "calibration": calibration, "seen": seen}, options.output)
        return 0
    from fairlead.cli.model.calibrate import table

    page = Page.of(f"{entry.id}  {_printable_text(entry.host)}")
    if entry.calibration:
        page = Page.of(page, _printable_page(table(entry.calibration)))
    if entry.seen:
        page = Page.of(page, Table.of(_SEEN_HEAD, [_seen_row(each) for each in entry.seen]))
    show_page(page, options.color)
    return 0


def run_delete(options: argparse.Namespace) -> int:
    """Delete setups."""
    entries = _load_entries(options)
    ids = list(dict.fromkeys(find_setup(entries, name).id for name in options.setup))
    if not options.yes:
        raise UserError(f"delete removes every profile of {', '.join(ids)}", "add --yes")
    deleted = [{"id": identity, "deleted": _delete(options, identity)} for identity in ids]
    if options.output != "table":
        show(deleted, options.output)
        return 0
    show_page(Page.of(Table.of(("ID", "DELETED"), [tuple(each.values()) for each in deleted])), options.color)
    return 0


def find_setup(entries: "list[SetupProfiles]", name: str) -> "SetupProfiles":
    """Return the one entry that a name matches: an id or its prefix, or the name of a setup."""
    matches = [entry for entry in entries if entry.id == name] or [
        entry for entry in entries if name and (entry.id.startswith(name) or entry.setup.name == name)
    ]
    if len(matches) == 1:
        return matches[0]
    ids = ", ".join(entry.id for entry in (matches or entries))
    if matches:
        raise SettingsError(f"{name}: {len(matches)} setups have this name", f"choose one: {ids}")
    raise SettingsError(f"{name}: no such setup", f"known: {ids or 'none'}")


def _load_entries(options: argparse.Namespace) -> "list[SetupProfiles]":
    """Return every setup with its profiles; print the profiles that cannot be read."""
    entries, unread = load_entries(options)
    for line in unread:
        print(f"fairlead: skipped: {line}", file=sys.stderr)
    return entries


def _delete(options: argparse.Namespace, setup: str) -> int:
    if in_cluster(options):
        import asyncio

        from fairlead.cli.model.profiles_cluster import open_cluster
        from fairlead.modelprofiles.store import delete_profiles

        async def inside() -> int:
            async with open_cluster(options) as cluster:
                return await delete_profiles(cluster, setup)

        return asyncio.run(inside())
    from fairlead.calibrate.profile_folder import remove_setup

    return remove_setup(setup, folder_of(options))


def _summary(entry: "SetupProfiles") -> dict[str, Any]:
    trials = entry.calibration.trials if entry.calibration else ()
    return {
        "id": entry.id,
        "setup": entry.setup.to_json(),
        "host": entry.host,
        "made": entry.made,
        "trials": len(trials),
        "measured": len(entry.calibration.done) if entry.calibration else 0,
        "seen": len(entry.seen),
    }


def _row(entry: "SetupProfiles") -> tuple[str | Cell, ...]:
    about = _summary(entry)
    models = f"{about['measured']} of {about['trials']}" if about["trials"] else "-"
    made = about["made"].replace("T", " ").removesuffix("+00:00")
    return (
        entry.id,
        _printable_text(entry.setup.name),
        _printable_text(entry.host),
        Cell(models, about["measured"] if about["trials"] else None),
        str(about["seen"] or "-"),
        made,
        _printable_text(entry.setup.device),
        _printable_text(f"{entry.setup.runtime} {entry.setup.version}"),
        _printable_text(entry.setup.precision),
    )


def _printable_cell(cell: Cell) -> Cell:
    return cell._replace(text=_printable_text(cell.text)) if cell.text else cell


def _printable_page(page: Page) -> Page:
    """Return a page without control characters."""
    return Page(
        tuple(
            block._replace(rows=tuple(tuple(_printable_cell(cell) for cell in row) for row in block.rows))
            if isinstance(block, Table)
            else Text(_printable_text(str(Page.of(block))))
            for block in page.blocks
        )
    )


def _printable_text(text: str) -> str:
    """Return a text without control characters: a profile may contain any text."""
    return "".join(char if char.isprintable() else "?" for char in text) or "-"


def _seen_row(seen: "ObservedUse") -> tuple[str, ...]:
    latency = seen.latency
    times = ("-",) * 4
    if latency is not None:
        ratio = "-" if latency.ratio is None else f"{latency.ratio:.0%}"
        times = (f"{latency.median * 1e3:.2f} ms", f"{latency.p90 * 1e3:.2f} ms", str(latency.count), ratio)
    return (
        _printable_text(seen.model or seen.digest[:12]),
        *times,
        "-" if seen.peak_bytes is None else format_bytes(seen.peak_bytes),
        "-" if seen.watts is None else f"{seen.watts:.0f} W",
        "-" if seen.ramp is None else f"{seen.ramp:.1f} s",
    )
