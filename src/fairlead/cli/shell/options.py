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
    """Let the user bring devices of his own."""
    command.add_argument(
        "--catalog",
        metavar="FILE",
        action="append",
        default=[],
        help="a TOML file (or folder) of your own devices; may be repeated; rows of a known id replace it",
    )


def add_model(command: argparse.ArgumentParser) -> None:
    """Let the user name a model, and bind what it leaves open."""
    command.add_argument("model", metavar="MODEL", help="an ONNX or TFLite file")
    command.add_argument(
        "--shape",
        metavar="NAME=DIMS",
        action="append",
        default=[],
        help="bind what the model leaves open: input=1x3x224x224, or batch=1; may be repeated",
    )


def add_root(command: argparse.ArgumentParser) -> None:
    """Let the user look at another machine than this one."""
    command.add_argument(
        "--root",
        metavar="DIR",
        default="/",
        help="look at the machine below this folder, or inside this captured tarball (default: this machine)",
    )
    command.add_argument("--no-nvml", action="store_true", help="do not ask NVIDIA's management library")


def add_output(command: argparse.ArgumentParser, default: str = "table") -> None:
    """Let the user choose between a table and a document."""
    command.add_argument("-o", "--output", choices=FORMATS, default=default, help="how to print it")
    add_color(command)


def add_color(command: argparse.ArgumentParser) -> None:
    """Let the user switch colours on or off."""
    command.add_argument(
        "--color", choices=COLORS, default="auto", help="auto: on a terminal, unless NO_COLOR is set"
    )


def add_list(
    command: argparse.ArgumentParser, columns: "Sequence[str | Column]" = (), more: Sequence[str] = ()
) -> None:
    """Let the user print a list in every way that lists can be printed; `more` are further outputs."""
    command.add_argument(
        "-o",
        "--output",
        choices=(*LISTS, *more),
        default="table",
        help="how to print it; wide: more columns; name: the names alone",
    )
    command.add_argument("--no-headers", action="store_true", help="with a table: print nothing but its rows")
    command.add_argument(
        "--sort-by", metavar="COLUMN", help="order by a column of the table, or by a field of -o json"
    )
    command.set_defaults(columns=tuple(str(getattr(column, "name", column)) for column in columns))
    add_color(command)


def add_listen(command: argparse.ArgumentParser, listen: str) -> None:
    """Let the user say where a program serves its pages."""
    command.add_argument(
        "--listen",
        metavar="ADDR:PORT",
        default=listen,
        help="where to serve (default: %(default)s); no ADDR means every interface, PORT 0 any free one",
    )


def add_tls(command: argparse.ArgumentParser) -> None:
    """Let a program serve HTTPS."""
    command.add_argument(
        "--tls-cert", metavar="FILE", default="", help="serve HTTPS with this certificate (PEM)"
    )
    command.add_argument("--tls-key", metavar="FILE", default="", help="the certificate's key")


def add_cluster(command: Any) -> None:
    """Let the user choose a cluster."""
    command.add_argument(
        "--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, ~/.kube/config, or the pod"
    )
    command.add_argument("--context", metavar="NAME", help="which context of the kubeconfig")


def catalog_of(options: argparse.Namespace) -> "Catalog":
    """Return the shipped catalog with the user's own rows."""
    from fairlead.catalog import load
    from fairlead.catalog.load import user_places

    return load([*user_places(), *options.catalog])


@contextmanager
def open_machine(options: argparse.Namespace) -> Iterator["tuple[Host, list[Gpu]]"]:
    """Open the machine that the user asked for, and what NVML says of it."""
    from fairlead.detect.capture import check_machine, open_capture, read_gpus
    from fairlead.host import Host

    with open_capture(options.root) as root:
        host = Host(root)
        check_machine(host, options.root)
        yield host, [] if options.no_nvml else gpus_of(host) or read_gpus(host)


def detect_here(catalog: "Catalog") -> "Inventory":
    """Look at the machine that this program runs on."""
    from fairlead.detect import detect
    from fairlead.host import Host

    host = Host("/")
    return detect(host, catalog, gpus_of(host))


def gpus_of(host: "Host") -> "list[Gpu]":
    """Ask NVML, but only about the machine that this program runs on."""
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
            "run it in its image (`fairlead docs image`), or with a newer Python; nodes need 3.10 alone",
        )
