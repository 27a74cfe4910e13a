"""Options that several commands share."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.listing import LISTS
from fairlead.cli.output.show import FORMATS
from fairlead.cli.output.terminal import COLORS
from fairlead.errors import MissingPartError

if TYPE_CHECKING:  # `fairlead --help` must not load the catalog
    from fairlead.catalog import Catalog
    from fairlead.cli.output.table import Column
    from fairlead.host import Host
    from fairlead.inventory import Inventory
    from fairlead.nvml import Gpu


def add_catalog(command: argparse.ArgumentParser) -> None:
    """Add the option for the user's own catalog rows."""
    command.add_argument(
        "--catalog",
        metavar="FILE",
        action="append",
        default=[],
        help="a TOML file (or folder) of your own devices; a row replaces the known one with its id; may be "
        "repeated",
    )


def add_model(command: argparse.ArgumentParser) -> None:
    """Add the model argument, and the option that binds its open dimensions."""
    command.add_argument("model", metavar="MODEL", help="an ONNX or TFLite file")
    command.add_argument(
        "--shape",
        metavar="NAME=DIMS",
        action="append",
        default=[],
        help="bind an open dimension of the model: input=1x3x224x224, or batch=1; may be repeated",
    )


def add_root(command: argparse.ArgumentParser) -> None:
    """Add the options that select another machine than this one."""
    command.add_argument(
        "--root",
        metavar="DIR",
        default="/",
        help="read the machine below this folder, or in this captured tarball (default: this machine)",
    )
    command.add_argument(
        "--no-nvml", action="store_true", help="do not use NVIDIA's management library (NVML)"
    )


def add_output(command: argparse.ArgumentParser, default: str = "table") -> None:
    """Add the options that choose between a table and a document."""
    command.add_argument("-o", "--output", choices=FORMATS, default=default, help="the output format")
    add_color(command)


def add_color(command: argparse.ArgumentParser) -> None:
    """Add the option that switches colours on or off."""
    command.add_argument(
        "--color", choices=COLORS, default="auto", help="auto: on a terminal, unless NO_COLOR is set"
    )


def add_list(
    command: argparse.ArgumentParser, columns: "Sequence[str | Column]" = (), more: Sequence[str] = ()
) -> None:
    """Add the options of a list; `more` are further output formats."""
    command.add_argument(
        "-o",
        "--output",
        choices=(*LISTS, *more),
        default="table",
        help="the output format; wide: more columns; name: the names alone",
    )
    command.add_argument("--no-headers", action="store_true", help="with a table: print the rows alone")
    command.add_argument(
        "--sort-by", metavar="COLUMN", help="sort by a column of the table, or by a field of -o json"
    )
    command.set_defaults(columns=tuple(str(getattr(column, "name", column)) for column in columns))
    add_color(command)


def add_listen(command: argparse.ArgumentParser, listen: str) -> None:
    """Add the option for the address that a program serves on."""
    command.add_argument(
        "--listen",
        metavar="ADDR:PORT",
        default=listen,
        help="where to serve (default: %(default)s); no ADDR means every interface, PORT 0 any free port",
    )


def add_tls(command: argparse.ArgumentParser) -> None:
    """Add the options for HTTPS."""
    command.add_argument(
        "--tls-cert", metavar="FILE", default="", help="serve HTTPS with this certificate (PEM)"
    )
    command.add_argument("--tls-key", metavar="FILE", default="", help="the certificate's key")


def add_cluster(command: Any) -> None:
    """Add the options that choose a cluster."""
    command.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="the kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or, in a pod, its service account)",
    )
    command.add_argument(
        "--context", metavar="NAME", help="the context of the kubeconfig (default: its current one)"
    )


def catalog_of(options: argparse.Namespace) -> "Catalog":
    """Return the shipped catalog, with the user's own rows."""
    from fairlead.catalog import load
    from fairlead.catalog.load import user_places

    return load([*user_places(), *options.catalog])


@contextmanager
def open_machine(options: argparse.Namespace) -> Iterator["tuple[Host, list[Gpu]]"]:
    """Open the machine that the options select, and the GPUs that NVML reports of it."""
    from fairlead.detect.capture import check_machine, open_capture, read_gpus
    from fairlead.host import Host

    with open_capture(options.root) as root:
        host = Host(root)
        check_machine(host, options.root)
        yield host, [] if options.no_nvml else gpus_of(host) or read_gpus(host)


def detect_here(catalog: "Catalog") -> "Inventory":
    """Detect the accelerators of the machine that this program runs on."""
    from fairlead.detect import detect
    from fairlead.host import Host

    host = Host("/")
    return detect(host, catalog, gpus_of(host))


def gpus_of(host: "Host") -> "list[Gpu]":
    """Return the GPUs that NVML reports, on the machine that this program runs on only."""
    from fairlead import nvml
    from fairlead.detect.nvidia import GPUS, is_driver_loaded

    if not host.live or not is_driver_loaded(host):
        return []
    with nvml.open_session() as session:
        return session.gpus(host.names(GPUS)) if session else []


def check_python(program: str, version: tuple[int, int] = sys.version_info[:2]) -> None:
    """Refuse to start a control-plane program on a Python that has no task groups."""
    if version < (3, 11):
        raise MissingPartError(
            f"serve {program} needs Python 3.11 or newer, this is Python {version[0]}.{version[1]}",
            "run it in its image (`fairlead docs image`), or with a newer Python; only nodes run with 3.10",
        )
