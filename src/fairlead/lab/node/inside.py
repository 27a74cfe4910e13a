"""Work inside the real nodes of a lab that runs."""

import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from fairlead.errors import LabError
from fairlead.lab.node import namespaces
from fairlead.lab.run import process
from fairlead.lab.run.state import Lab, LabPhase, LabProfile, NodeNamespaces


def nodes(lab: Lab) -> tuple[NodeNamespaces, ...]:
    """Return the real nodes of a lab, or say why there are none to work in."""
    if lab.profile is not LabProfile.NODE:
        raise LabError(
            f"lab {lab.name!r} has no real nodes: its profile is {lab.profile.value}",
            hint="start one that has: fairlead lab up --profile node --name N",
        )
    if lab.phase is not LabPhase.READY:
        raise LabError(f"lab {lab.name!r} is not ready", hint="wait for whoever starts it")
    gone = [space.node for space in lab.namespaces if not process.alive(space.init)]
    if gone:
        raise LabError(
            f"lab {lab.name!r} is broken: {', '.join(gone)} ended",
            hint=f"end the rest of it: fairlead lab down --name {lab.name}",
        )
    return lab.namespaces


def run(
    space: NodeNamespaces,
    argv: Sequence[str],
    *,
    stdin: IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end as one of a node's own, with the node's files, processes and network."""
    return _run(namespaces.enter(space, argv), stdin, env)


def run_in_network(space: NodeNamespaces, argv: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a program of the host to its end in a node's network."""
    return _run(namespaces.enter_network(space, argv), None, None)


def _run(
    argv: Sequence[str], stdin: IO[bytes] | None, env: Mapping[str, str] | None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603  # no shell; the caller chooses what runs in his own lab
        argv,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        env=env,
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
    )
