"""`fairlead detect`: every accelerator of a machine, with the evidence."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairlead.cli import options as shared
from fairlead.cli.output import FORMATS, show, to_table
from fairlead.units import counted, format_bytes, format_ops

if TYPE_CHECKING:
    from fairlead.inventory import Accelerator, Inventory

_PREFERRED = ("int8", "int8-sparse", "fp16", "bf16", "fp32")


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "detect",
        help="show every accelerator of this machine",
        description="Show every accelerator of a machine: what it is, how sure that is, its state and why.",
    )
    shared.add_root(command)
    shared.add_catalog(command)
    command.add_argument(
        "-o", "--output", choices=(*FORMATS, "labels"), default="table", help="how to print it"
    )
    command.add_argument(
        "--legacy-labels", action="store_true", help="with -o labels: also print the un-prefixed gpu.* set"
    )
    command.add_argument(
        "-v", "--verbose", action="store_true", help="with -o table: also print the evidence"
    )
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.detect import detect

    catalog = shared.catalog_of(options)
    with shared.machine_of(options) as (host, gpus):
        inventory = detect(host, catalog, gpus)
    if options.output == "labels":
        from fairlead.publish.labels import labels, legacy_labels

        pairs = {**labels(inventory), **(legacy_labels(inventory) if options.legacy_labels else {})}
        print("\n".join(f"{key}={value}" for key, value in sorted(pairs.items())))
    elif options.output == "table":
        print(table(inventory, verbose=options.verbose))
    else:
        show(inventory.to_json(), options.output)
    return 0


def table(inventory: "Inventory", *, verbose: bool) -> str:
    """Return an inventory for people."""
    parts = [_headline(inventory)]
    head = ("ACCELERATOR", "MODEL", "KIND", "STATE", "SURE", "MEMORY", "PEAK", "NOW", "BUS")
    parts.append(to_table(head, [_row(acc) for acc in inventory.accelerators]))
    parts += [f"{acc.bus}: {acc.reason}" for acc in inventory.accelerators if acc.reason]
    parts += [f"unknown device {odd.ids} at {odd.bus}: {odd.reason}" for odd in inventory.unknown]
    if verbose:
        for acc in inventory.accelerators:
            parts.append(f"\n{acc.id}")
            parts += [f"  {item.source:6} {item.path}: {item.says}" for item in acc.evidence]
        parts += [f"could not read {problem}" for problem in inventory.machine.problems]
    return "\n".join(parts)


def _headline(inventory: "Inventory") -> str:
    machine = inventory.machine
    facts = [
        machine.board or "",
        machine.arch or "",
        counted(machine.cpus, "CPU") if machine.cpus else "",
        f"{format_bytes(machine.memory)} RAM" if machine.memory else "",
        machine.release or "",
    ]
    return ", ".join(fact for fact in facts if fact) or "a machine that says nothing of itself"


def _row(acc: "Accelerator") -> tuple[str, ...]:
    memory = format_bytes(acc.memory) if acc.memory else "-"
    return (
        acc.name if len(acc.name) <= 44 else f"{acc.name[:43]}…",
        acc.model or "|".join(acc.candidates),
        acc.kind,
        acc.state.value,
        f"{acc.confidence:.0%}",
        f"{memory} shared" if acc.unified_memory and acc.memory else memory,
        _rate(acc.peak),
        _rate(acc.effective),
        acc.bus,
    )


def _rate(rates: Mapping[str, float]) -> str:
    best = next((name for name in _PREFERRED if name in rates), next(iter(rates), None))
    return f"{format_ops(rates[best])} {best}" if best else "-"
