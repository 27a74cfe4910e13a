"""A lab whose programs are being started: what is started is written down before anything else happens."""

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
    """Start programs of a lab and keep its state file true."""

    def __init__(self, lab: Lab, env: Mapping[str, str]) -> None:
        self.lab = lab
        self.env = dict(env)

    def start(
        self, name: str, program: Path, arguments: Sequence[str], space: NodeNamespaces | None = None
    ) -> LabProgram:
        """Start a program on the host, or as one of a node's own."""
        return self._start(name, (str(program), *arguments), space)

    def restart(self, program: LabProgram) -> LabProgram:
        """Start a program that has ended, as it was started before."""
        space = next((each for each in self.lab.namespaces if each.node == program.node), None)
        return self._start(program.name, program.argv, space)

    def start_one_shot(self, name: str, argv: Sequence[str], space: NodeNamespaces) -> LabProgram:
        """Start something that ends by itself."""
        log = self.lab.log(name)
        line = namespaces.enter(space, argv)
        return LabProgram(name, process.start(line, log, self.lab.folder, self.env), str(log))

    def start_relay(
        self, listener: socket, space: NodeNamespaces, port: int, name: str = "relay"
    ) -> LabProgram:
        """Carry what comes in at a socket of the host to a port in a node's network."""
        argv = [sys.executable, "-I", "-S", relay.__file__, listener.fileno(), "127.0.0.1", port]
        log = self.lab.log(name)
        line = namespaces.enter_network(space, [str(part) for part in argv])
        found = process.start(line, log, self.lab.folder, self.env, hand=[listener.fileno()])
        return self._remember(LabProgram(name, found, str(log)))

    def create_namespaces(self, number: int, folder: Path) -> NodeNamespaces:
        """Make a node's namespaces."""
        first = self.lab.namespaces[0] if self.lab.namespaces else None
        space = namespaces.create(number, folder, self.lab, self.env, first)
        self.lab = save(replace(self.lab, namespaces=(*self.lab.namespaces, space)))
        return space

    def program(self, name: str) -> LabProgram:
        """Return a program that was started."""
        return next(program for program in self.lab.programs if program.name == name)

    def check(self) -> None:
        """Raise when a program has stopped."""
        ready.check_running(self.lab.programs)

    def _start(self, name: str, argv: tuple[str, ...], space: NodeNamespaces | None) -> LabProgram:
        log = self.lab.log(name)
        line = namespaces.enter(space, argv) if space else argv
        outer = process.start(line, log, self.lab.folder, self.env)
        found = namespaces.inner_process(outer) if space else outer
        if found is None:
            raise LabError(f"{name} could not be started; it said last:\n{ready.tail(log)}")
        return self._remember(LabProgram(name, found, str(log), argv, space.node if space else ""))

    def _remember(self, program: LabProgram) -> LabProgram:
        """Write a program down, in the place of the one of the same name before it."""
        known = {each.name: each for each in self.lab.programs} | {program.name: program}
        self.lab = save(replace(self.lab, programs=tuple(known.values()), environ=self.env))
        return program
