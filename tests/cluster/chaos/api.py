"""A private API server for mishaps: frozen, killed, compacted, restored from a backup."""

import asyncio
import json
import shutil
import signal
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

from fairlead.cluster.config import kubeconfig
from fairlead.cluster.config.types import ClusterConfig
from fairlead.lab.build.programs import BuiltPrograms
from fairlead.lab.control import commands
from fairlead.lab.run import process, ready
from fairlead.lab.run.starting import StartingLab
from fairlead.lab.run.state import Lab

_LIMIT = 90.0


class ChaosApi:
    """etcd and an API server, in a lab of their own."""

    def __init__(self, lab: Lab, programs: BuiltPrograms) -> None:
        self._running = StartingLab(lab, {"PATH": "/usr/bin:/bin", "HOME": str(lab.folder)})
        self._programs = programs
        self._site = commands.ControlPlane(lab.folder, lab.ports)

    @property
    def config(self) -> ClusterConfig:
        """The administrator's configuration, without the wire in between."""
        return kubeconfig.load(str(self._running.lab.kubeconfig), env={})

    @property
    def port(self) -> int:
        """The port of the API server."""
        return self._site.ports["kube-apiserver"]

    def freeze(self) -> None:
        """Stop the API server's process; the kernel still accepts connections for it."""
        self._signal("kube-apiserver", signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the API server."""
        self._signal("kube-apiserver", signal.SIGCONT)

    def kill(self, name: str = "kube-apiserver") -> None:
        """Kill a program and wait until it is gone."""
        program = self._running.program(name)
        assert not process.kill([program.process])
        while process.exit_code(program.process) is None:
            time.sleep(0.01)  # the first thread ends before the others, which still hold the port
        left = tuple(other for other in self._running.lab.programs if other != program)
        self._running.lab = replace(self._running.lab, programs=left)

    async def restart(self, *flags: str) -> None:
        """Start the killed programs, with additional flags, and wait until the API server is ready."""
        alive = {program.name for program in self._running.lab.programs}
        if "etcd" not in alive:
            self._running.start("etcd", self._programs["etcd"], commands.etcd(self._site))
        if "kube-apiserver" not in alive:
            arguments = [*commands.api_server(self._site, controllers=False), *flags]
            self._running.start("kube-apiserver", self._programs["kube-apiserver"], arguments)
        context, until = ready.admin_tls_context(self._site.keys), time.monotonic() + _LIMIT
        while not await asyncio.to_thread(ready.responds_ok, self.port, "/readyz", context):
            assert time.monotonic() < until, ready.tail(self._running.lab.log("kube-apiserver"))
            self._running.check()
            await asyncio.sleep(0.05)

    def compact(self) -> None:
        """Compact etcd up to the last version."""
        revision = self._etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def backup(self) -> Path:
        """Copy etcd's data folder, as a snapshot of a volume would."""
        folder = self._running.lab.folder
        shutil.rmtree(folder / "backup", ignore_errors=True)
        self._signal("etcd", signal.SIGSTOP)
        try:
            shutil.copytree(folder / "etcd", folder / "backup")
        finally:
            self._signal("etcd", signal.SIGCONT)
        return folder / "backup"

    async def restore(self, backup: Path) -> None:
        """Replace etcd's data with a copy, and restart etcd and the API server."""
        self.kill("kube-apiserver")
        self.kill("etcd")
        data = self._running.lab.folder / "etcd"
        shutil.rmtree(data)
        backup.rename(data)
        await self.restart()

    def _signal(self, name: str, number: int) -> None:
        assert process.send_signal(self._running.program(name).process, number), f"{name} is not running"

    def _etcd(self, path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
        url = f"http://127.0.0.1:{self._site.ports['etcd']}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            document: dict[str, dict[str, str]] = json.load(answer)
            return document
