"""`fairlead capture`: write the inputs of discovery to a tarball that `fairlead detect` replays."""

import argparse
import sys
from typing import Any

from fairlead.cli.output.progress import progress
from fairlead.cli.shell import options as shared
from fairlead.units import pluralize


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "capture",
        help="write the inputs of discovery to a scrubbed tarball",
        description="Write exactly the paths that discovery reads, without serial numbers, MAC addresses "
        "or host names, to a tarball; `fairlead detect --root FILE` replays it anywhere.",
    )
    command.add_argument("file", metavar="FILE", help="the tarball to write, such as myboard.tar.gz")
    command.add_argument("--root", metavar="DIR", default="/", help="capture the machine below this folder")
    command.add_argument(
        "--no-nvml", action="store_true", help="do not use NVIDIA's management library (NVML)"
    )
    shared.add_catalog(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    from fairlead.detect import capture, detect
    from fairlead.host import Host

    catalog = shared.catalog_of(options)
    with progress("reading the machine"), capture.open_capture(options.root) as root:
        capture.check_machine(Host(root), options.root)
        host = capture.RecordingHost(root)
        gpus = [] if options.no_nvml else shared.gpus_of(host) or capture.read_gpus(host)
        count = capture.write_capture(options.file, lambda seen: detect(seen, catalog, gpus), host, gpus)
    print(f"wrote {pluralize(count, 'entry', 'entries')} to {options.file}", file=sys.stderr)
    print(f"replay it with: fairlead detect --root {options.file}", file=sys.stderr)
    return 0
