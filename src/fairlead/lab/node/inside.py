"""Run programs inside the real nodes of a running lab."""

import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from fairlead.errors import LabError
from fairlead.lab.node import namespaces
from fairlead.lab.run import process
from fairlead.lab.run.state import Lab, LabPhase, LabProfile, NodeNamespaces


def nodes(lab: Lab) -> tuple[NodeNamespaces, ...]:
    """Return the namespaces of a lab's real nodes; raise if it has none that run."""
    if lab.profile is not LabProfile.NODE:
        raise LabError(
            f"lab {lab.name!r} has no real nodes: its profile is {lab.profile.value}",
            hint="start a lab with real nodes: fairlead lab up --profile node --name N",
        )
    if lab.phase is not LabPhase.READY:
        raise LabError(f"lab {lab.name!r} is not ready", hint="wait until its start has finished")
    ended = [node_ns.node for node_ns in lab.namespaces if not process.alive(node_ns.init)]
    if ended:
        raise LabError(
            f"lab {lab.name!r} is broken: {', '.join(ended)} ended",
            hint=f"end the rest of it: fairlead lab down --name {lab.name}",
        )
    return lab.namespaces


def run(
    node_ns: NodeNamespaces,
    argv: Sequence[str],
    *,
    stdin: IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end inside a node, with the node's files, processes and network."""
    return _run(namespaces.enter(node_ns, argv), stdin, env)


def run_in_network(node_ns: NodeNamespaces, argv: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a program of the host to its end in a node's network namespace."""
    return _run(namespaces.enter_network(node_ns, argv), None, None)


def _run(
    argv: Sequence[str], stdin: IO[bytes] | None, env: Mapping[str, str] | None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603  # no shell; the caller chooses what runs in the lab
        argv,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        env=env,
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
    )
