"""A lab whose programs are being started: each start is recorded before the next one."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from socket import socket

from fairlead.errors import LabError
from fairlead.lab.node import namespaces, relay
from fairlead.lab.run import process, ready
from fairlead.lab.run.state import Lab, LabProgram, NodeNamespaces, save


class StartingLab:
    """Start the programs of a lab and keep its state file up to date."""

    def __init__(self, lab: Lab, env: Mapping[str, str]) -> None:
        self.lab = lab
        self.env = dict(env)

    def start(
        self, name: str, program: Path, arguments: Sequence[str], node_ns: NodeNamespaces | None = None
    ) -> LabProgram:
        """Start a program on the host, or inside a node."""
        return self._start(name, (str(program), *arguments), node_ns)

    def restart(self, program: LabProgram) -> LabProgram:
        """Start a program that has ended, with its old command line."""
        node_ns = next(
            (candidate for candidate in self.lab.namespaces if candidate.node == program.node), None
        )
        return self._start(program.name, program.argv, node_ns)

    def start_one_shot(self, name: str, argv: Sequence[str], node_ns: NodeNamespaces) -> LabProgram:
        """Start a program that exits by itself, inside a node; the state file does not list it."""
        log = self.lab.log(name)
        line = namespaces.enter(node_ns, argv)
        return LabProgram(name, process.start(line, log, self.lab.folder, self.env), str(log))

    def start_relay(
        self, listener: socket, node_ns: NodeNamespaces, port: int, name: str = "relay"
    ) -> LabProgram:
        """Relay connections of a host socket to a port in a node's network."""
        argv = [sys.executable, "-I", "-S", relay.__file__, listener.fileno(), "127.0.0.1", port]
        log = self.lab.log(name)
        line = namespaces.enter_network(node_ns, [str(part) for part in argv])
        started = process.start(line, log, self.lab.folder, self.env, pass_fds=[listener.fileno()])
        return self._record(LabProgram(name, started, str(log)))

    def create_namespaces(self, number: int, folder: Path) -> NodeNamespaces:
        """Create a node's namespaces and record them."""
        first = self.lab.namespaces[0] if self.lab.namespaces else None
        node_ns = namespaces.create(number, folder, self.lab, self.env, first)
        self.lab = save(replace(self.lab, namespaces=(*self.lab.namespaces, node_ns)))
        return node_ns

    def program(self, name: str) -> LabProgram:
        """Return a started program by its name."""
        return next(program for program in self.lab.programs if program.name == name)

    def check(self) -> None:
        """Raise if a program has stopped."""
        ready.check_running(self.lab.programs)

    def _start(self, name: str, argv: tuple[str, ...], node_ns: NodeNamespaces | None) -> LabProgram:
        log = self.lab.log(name)
        line = namespaces.enter(node_ns, argv) if node_ns else argv
        outer = process.start(line, log, self.lab.folder, self.env)
        started = namespaces.inner_process(outer) if node_ns else outer
        if started is None:
            raise LabError(f"{name} could not be started; last lines of its log:\n{ready.tail(log)}")
        return self._record(LabProgram(name, started, str(log), argv, node_ns.node if node_ns else ""))

    def _record(self, program: LabProgram) -> LabProgram:
        """Save a program in the state file, in place of an earlier one with the same name."""
        programs = {known.name: known for known in self.lab.programs} | {program.name: program}
        self.lab = save(replace(self.lab, programs=tuple(programs.values()), environ=self.env))
        return program
