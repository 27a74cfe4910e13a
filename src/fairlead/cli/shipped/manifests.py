"""`fairlead manifests`: the files that install fairlead in a cluster: manifests, and the Helm chart."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairlead.cli.output.show import show_rows
from fairlead.cli.shell import options as shared
from fairlead.cli.shipped.files import copy_files, find_file
from fairlead.errors import SettingsError
from fairlead.units import pluralize

MANIFESTS: Final = {
    "agent": ("fairlead.yaml", "the agent on every node, with its namespace, account and policies"),
    "scheduler": ("scheduler.yaml", "the scheduler for pods with schedulerName: fairlead; after agent"),
    "extender": ("extender.yaml", "the extender for a stock kube-scheduler; after agent"),
    "pipelines": ("pipelines.yaml", "the kind Pipeline, and roles for it"),
    "augmentations": ("augmentations.yaml", "the kind Augmentation, and roles for it"),
    "operator": ("operator.yaml", "the operator, which runs pipelines and augmentations; after their kinds"),
    "dashboard": ("dashboard.yaml", "the dashboard for the users of a cluster; after agent"),
    "deviceclasses": ("deviceclasses.yaml", "classes for claims (DRA), Kubernetes 1.34 and later"),
    "modelprofiles": ("modelprofiles.yaml", "the kind ModelProfile: measurements of models"),
}
"""By the name on the command line: the file and its contents."""
CHART: Final = "chart"


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "manifests",
        help="print the manifests that install fairlead in a cluster, or write the chart",
        description="Print manifests for `kubectl apply -f -`, or write them and the chart into a folder. "
        "Without a name and a folder, list them.",
    )
    command.add_argument(
        "name", metavar="NAME", nargs="*", help=f"some of: {', '.join(MANIFESTS)}; with --out also {CHART}"
    )
    command.add_argument("--out", metavar="DIR", help="write into this folder instead (default: all of them)")
    shared.add_list(command, ("NAME", "ABOUT"))
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.shipped import files

    shipped = files("manifests")
    known = {name: shipped[file] for name, (file, _) in MANIFESTS.items()}
    if options.out is not None:
        return _write(options, known)
    if CHART in options.name:
        raise SettingsError("the chart is a folder, and cannot be printed", "add --out DIR")
    if options.name:
        texts = [find_file("manifests", name, known).read_text(encoding="utf-8") for name in options.name]
        print("---\n".join(texts), end="")
        return 0
    rows = [(name, text) for name, (_, text) in MANIFESTS.items()]
    rows.append((CHART, "the Helm chart, a folder: fairlead manifests chart --out DIR"))
    show_rows(("NAME", "ABOUT"), rows, options)
    return 0


def _write(options: argparse.Namespace, known: Mapping[str, Path]) -> int:
    from fairlead.shipped import files

    names = dict.fromkeys(options.name or [*known, CHART])
    sources: dict[str, Path] = {}
    for name in names:
        if name == CHART:
            sources |= {f"{CHART}/{path}": source for path, source in files(CHART).items()}
        else:
            source = find_file("manifests", name, known)
            sources[f"manifests/{source.name}"] = source
    written = copy_files(sources, options.out)
    print(f"wrote {pluralize(len(written), 'file')} to {options.out}", file=sys.stderr)
    return 0
