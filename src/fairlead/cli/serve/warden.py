"""`fairlead warden`: the small part of the agent that runs as uid 0, without capabilities."""

import argparse
import json
import os
import sys
from typing import Any, Final, NoReturn

import fairlead
from fairlead.errors import UserError

_POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
_CDI: Final = "/var/run/cdi"
_MPS: Final = "/run/fairlead-mps"
_HOME: Final = os.path.dirname(os.path.dirname(os.path.abspath(fairlead.__file__)))
"""The folder that contains the package."""
_BECOME: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from fairlead.{}.__main__ import main; sys.exit(main())"
)


def add(commands: Any) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "warden",
        help="do what only root may do on a node, for the agent",
        description="Do what only root may do on a node, for the agent; see: fairlead docs privilege.",
    )
    verbs = command.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    _add_open(verbs)
    _add_serve(verbs)
    _add_attribute(verbs)
    _add_limit(verbs)


def _add_open(verbs: Any) -> None:
    verb = verbs.add_parser(
        "open",
        help="open the agent's own folders to its group, and copy small files for it",
        description="Open the agent's folders to its group, remove stale sockets there, copy small files.",
    )
    _add_group(verb)
    verb.add_argument(
        "--folder",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder of the agent, made writable for its group; may be repeated",
    )
    verb.add_argument(
        "--copy",
        metavar="FROM:TO",
        action="append",
        default=[],
        help="copy a file of at most 64 KiB if it exists; TO is a file, or a folder where it ends with /; "
        "may be repeated",
    )
    verb.set_defaults(run=_open)


def _add_serve(verbs: Any) -> None:
    verb = verbs.add_parser(
        "serve",
        help="relay the kubelet's pod-resources and write checked CDI files",
        description="Relay the kubelet's pod-resources socket, and write CDI files that name accelerators.",
    )
    _add_group(verb)
    verb.add_argument(
        "--folder",
        metavar="DIR",
        required=True,
        help="the folder for the sockets; the group may enter it but change nothing in it",
    )
    verb.add_argument(
        "--pod-resources",
        metavar="SOCKET",
        nargs="?",
        const=_POD_RESOURCES,
        help="listen on DIR/pod-resources.sock and relay to this socket of the kubelet "
        "(without SOCKET: %(const)s)",
    )
    verb.add_argument(
        "--cdi-dir",
        metavar="DIR",
        nargs="?",
        const=_CDI,
        help="listen on DIR/cdi.sock and write CDI files into this folder (without DIR: %(const)s)",
    )
    verb.add_argument(
        "--device-root",
        metavar="DIR",
        default="",
        help="read device nodes and sysfs below this folder (default: this machine's own)",
    )
    verb.set_defaults(run=_serve)


def _add_attribute(verbs: Any) -> None:
    verb = verbs.add_parser(
        "attribute",
        help="answer which pod uses how much of each accelerator",
        description="Answer, on a Unix socket, which pod and container use how much of each accelerator. It "
        "needs the host's pid namespace, so it runs in a pod of its own.",
    )
    _add_group(verb)
    verb.add_argument(
        "--folder",
        metavar="DIR",
        required=True,
        help="the folder for the socket; the group may enter it but change nothing in it",
    )
    verb.add_argument(
        "--nvml", metavar="FILE", default="", help="NVIDIA's management library (default: the system's)"
    )
    verb.add_argument("--proc", metavar="DIR", default="/proc", help="processes (default: %(default)s)")
    verb.add_argument("--sys", metavar="DIR", default="/sys", help="sysfs (default: %(default)s)")
    verb.add_argument(
        "--debugfs",
        metavar="DIR",
        default="",
        help="debugfs, which lists the processes on a Jetson's GPU (default: not read)",
    )
    verb.set_defaults(run=_attribute)


def _add_limit(verbs: Any) -> None:
    verb = verbs.add_parser(
        "limit",
        help="hold containers to their share of a GPU, by MPS daemons",
        description="Start and end, on requests over a Unix socket, a daemon of CUDA's Multi-Process Service "
        "for each container that is held to its share. It needs the GPUs, so it runs in a pod of its own.",
    )
    _add_group(verb)
    verb.add_argument(
        "--folder",
        metavar="DIR",
        default=_MPS,
        help="the folder for the socket and the daemons; the group may enter it but change nothing in it "
        "(default: %(default)s)",
    )
    verb.add_argument(
        "--program",
        metavar="FILE",
        default="",
        help="nvidia-cuda-mps-control (default: where the driver or the runtime puts it)",
    )
    verb.set_defaults(run=_limit)


def _add_group(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--group", metavar="GID", type=int, required=True, help="the agent's group, as a number"
    )


def _open(options: argparse.Namespace) -> int:
    from fairlead.warden.prepare import copy, open_folder, parse_copy

    group, copies = _group(options), [parse_copy(text) for text in options.copy]
    for folder in options.folder:
        open_folder(folder, group)
    for request in copies:
        copy(request, _log)
    return 0


def _serve(options: argparse.Namespace) -> int:
    if options.pod_resources is None and options.cdi_dir is None:
        raise UserError("nothing to serve", "add --pod-resources, --cdi-dir or both")
    settings = {
        "folder": options.folder,
        "group": _group(options),
        "pod_resources": options.pod_resources,
        "cdi": options.cdi_dir,
        "device_root": options.device_root,
    }
    _become("warden", settings)


def _attribute(options: argparse.Namespace) -> int:
    settings = {
        "folder": options.folder,
        "group": _group(options),
        "nvml": options.nvml,
        "proc": options.proc,
        "sys": options.sys,
        "debugfs": options.debugfs,
    }
    _become("attribution", settings)


def _limit(options: argparse.Namespace) -> int:
    settings = {"folder": options.folder, "group": _group(options), "program": options.program}
    _become("enforcement", settings)


def _become(package: str, settings: dict[str, Any]) -> NoReturn:
    """Replace the process, which frees the modules of the command line, a third of the memory.

    It gets the path of this package: an isolated interpreter finds only installed ones.
    """
    command = [sys.executable, "-I", "-c", _BECOME.format(package), _HOME, json.dumps(settings)]
    os.execv(sys.executable, command)  # noqa: S606  # this interpreter, without a shell


def _group(options: argparse.Namespace) -> int:
    group = int(options.group)
    if not 0 < group < 2**32 - 1:
        raise UserError(
            f"--group {group}: not a group for an agent", "name the agent's own group, such as 10001"
        )
    return group


def _log(line: str) -> None:
    print(f"fairlead warden: {line}", file=sys.stderr, flush=True)
