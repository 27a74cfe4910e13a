"""`fairlead detect`: every accelerator of a machine, with the evidence."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.listing import select_columns, sorted_by
from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show, show_list
from fairlead.cli.output.table import Cell, Column, Tone
from fairlead.cli.output.terminal import Page, Text, show_page
from fairlead.cli.shell import options as shared
from fairlead.units import format_bytes, format_ops, pluralize

if TYPE_CHECKING:
    from fairlead.inventory import Accelerator, Inventory

_HEAD = (
    Column("ACCELERATOR"),
    *map(Column, ("MODEL", "KIND", "STATE", "SURE", "MEMORY", "PEAK", "NOW", "BUS")),
    Column("VENDOR", wide=True),
    Column("DRIVER", wide=True),
    Column("DEVICE NODE", wide=True),
    Column("ID", wide=True, identity=True),
)
_JETSON_CLIENTS = "/sys/kernel/debug/nvmap/iovmm/clients"
"""What a Jetson's GPU lists of processes, to root alone."""
_PREFERRED = ("int8", "int8-sparse", "fp16", "bf16", "fp32")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "detect",
        help="show every accelerator of this machine",
        description="Show every accelerator of a machine: its model, the confidence, its state and why.",
    )
    shared.add_root(command)
    shared.add_catalog(command)
    shared.add_list(command, _HEAD, more=("labels",))
    command.add_argument(
        "--legacy-labels", action="store_true", help="with -o labels: also print the un-prefixed gpu.* set"
    )
    command.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="with -o table: also print the evidence, and what can limit a job",
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from dataclasses import replace

    from fairlead.detect import detect

    catalog = shared.catalog_of(options)
    with progress("reading the machine"), shared.open_machine(options) as (host, gpus):
        inventory = detect(host, catalog, gpus)
    accelerators = sorted_by(inventory.accelerators, options.sort_by, _HEAD, _row, lambda acc: acc.to_json())
    inventory = replace(inventory, accelerators=tuple(accelerators))
    if options.output == "labels":
        from fairlead.publish.labels import labels, legacy_labels

        pairs = {**labels(inventory), **(legacy_labels(inventory) if options.legacy_labels else {})}
        print("\n".join(f"{key}={value}" for key, value in sorted(pairs.items())))
    elif options.output in ("json", "yaml"):
        show(inventory.to_json(), options.output)
    elif options.no_headers or options.output == "name":
        rows = [_row(acc) for acc in accelerators]
        show_list(_HEAD, rows, options.output, headers=False, color=options.color)
    else:
        limits = _limits(inventory, options.root) if options.verbose else None
        show_page(table(inventory, options.output, limits), options.color)
    return 0


def _limits(inventory: "Inventory", root: str) -> dict[str, str]:
    """Return what can hold a job to its share, by accelerator; MPS is looked for on this machine only."""
    import os

    from fairlead.limiter.mps import control_program
    from fairlead.local.enforced import by_listing, limits_text

    here = root == "/"
    mps = here and control_program(os.environ) is not None
    jetson = here and os.access(_JETSON_CLIENTS, os.R_OK)
    return {
        acc.id: limits_text(
            acc, mps=mps, listed=by_listing(acc) or (jetson and acc.vendor == "NVIDIA" and acc.unified_memory)
        )
        for acc in inventory.accelerators
        if acc.kind != "cpu"
    }


def table(inventory: "Inventory", output: str = "table", limits: Mapping[str, str] | None = None) -> Page:
    """Return an inventory as a page for people; with limits also the evidence, and those."""
    rows = [_row(acc) for acc in inventory.accelerators]
    parts: list[Text] = [
        Text(f"{acc.bus}: {acc.reason}", None if acc.state.allocatable or acc.mig_instances else Tone.BAD)
        for acc in inventory.accelerators
        if acc.reason
    ]
    parts += [
        Text(f"unknown device {odd.ids} at {odd.bus}: {odd.reason}", Tone.WARN) for odd in inventory.unknown
    ]
    if limits is not None:
        for acc in inventory.accelerators:
            parts += [Text(""), Text(acc.id, Tone.HEAD)]
            parts += [Text(f"  limits: {limits[acc.id]}")] if acc.id in limits else []
            parts += [Text(f"  {item.source:6} {item.path}: {item.says}") for item in acc.evidence]
        parts += [Text(f"could not read {problem}", Tone.WARN) for problem in inventory.machine.problems]
    return Page.of(_headline(inventory), select_columns(_HEAD, rows, output, headers=True), parts)


def _headline(inventory: "Inventory") -> str:
    machine = inventory.machine
    facts = [
        machine.board or "",
        machine.arch or "",
        pluralize(machine.cpus, "CPU") if machine.cpus else "",
        f"{format_bytes(machine.memory)} RAM" if machine.memory else "",
        machine.release or "",
    ]
    return ", ".join(fact for fact in facts if fact) or "an unknown machine"


def _row(acc: "Accelerator") -> tuple[str | Cell, ...]:
    memory = format_bytes(acc.memory) if acc.memory else "-"
    return (
        acc.name if len(acc.name) <= 44 else f"{acc.name[:43]}…",
        acc.model or "|".join(acc.candidates),
        acc.kind,
        Cell(acc.state.value, tone=_tone(acc)),
        Cell(f"{acc.confidence:.0%}", acc.confidence),
        Cell(f"{memory} shared" if acc.unified_memory and acc.memory else memory, acc.memory),
        _rate(acc.peak),
        _rate(acc.effective),
        acc.bus,
        acc.vendor or "-",
        acc.driver or "-",
        acc.node or "-",
        acc.id,
    )


def _tone(acc: "Accelerator") -> Tone | None:
    """Return the tone of a state: a GPU that is split into MIG instances is not allocated, and no fault."""
    if acc.mig_instances:
        return None
    return Tone.GOOD if acc.state.allocatable else Tone.BAD


def _rate(rates: Mapping[str, float]) -> Cell:
    best = next((name for name in _PREFERRED if name in rates), next(iter(rates), None))
    return Cell(f"{format_ops(rates[best])} {best}", rates[best]) if best else Cell("-")
