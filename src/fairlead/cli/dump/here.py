"""A dump of this machine: its accelerators, its jobs and queue, and what `fairlead doctor --here` finds."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from fairlead import __version__
from fairlead.cli.shell import options as shared
from fairlead.errors import FairleadError

if TYPE_CHECKING:
    from fairlead.dump.archive import DumpBuilder


def dump_machine(options: argparse.Namespace, taken: str) -> "DumpBuilder":
    """Return everything about this machine."""
    from fairlead.cli.machine.doctor import examine_here
    from fairlead.dump.archive import DumpBuilder
    from fairlead.dump.scrub import Scrubber, is_secret_name

    own = [value for name, value in os.environ.items() if is_secret_name(name)]
    builder = DumpBuilder("this machine", taken, Scrubber(own))
    inventory = shared.detect_here(shared.catalog_of(options))
    builder.add("inventory.json", inventory.to_json())
    builder.add("versions.json", _versions())
    _add_jobs(builder)
    try:
        builder.add("doctor.json", [each.to_json() for each in examine_here(options)])
    except (FairleadError, ImportError) as error:
        builder.miss("doctor.json", error)
    return builder


def _add_jobs(builder: "DumpBuilder") -> None:
    """Add the jobs, and the machine with them as a snapshot; their commands and output stay out."""
    from fairlead.dump.machine import machine_snapshot
    from fairlead.local.status_reader import open_reader

    reader = open_reader(os.environ)
    try:
        status = reader.read()
    finally:
        reader.close()
    for line in status.warnings:
        builder.miss("jobs.json", line)
    jobs = [*status.running, *status.queued]
    documents = [{**job.to_json(), "reason": status.reason(job)} for job in jobs]
    builder.add("jobs.json", {"jobs": documents})
    if status.view is None:
        builder.miss("snapshot", "the machine could not be read")
        return
    builder.add_snapshot(machine_snapshot(status.view, jobs, builder.taken, builder.source).to_json())


def _versions() -> dict[str, Any]:
    """Return versions of programs and libraries, and the names of variables that steer them."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    libraries = {}
    for name in ("aiohttp", "msgspec", "numpy", "onnxruntime", "pyyaml"):
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            libraries[name] = "not installed"
    steering = sorted(name for name in os.environ if name.startswith(("FAIRLEAD_", "CUDA_", "NVIDIA_")))
    return {
        "fairlead": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": libraries,
        "variables": steering,
    }
