"""A Prometheus in the first node of a lab: it discovers pods, and the host can query it."""

import json
import shutil
import socket
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fairlead.errors import LabError
from fairlead.lab.build.prerequisites import build
from fairlead.lab.build.programs import BuiltPrograms
from fairlead.lab.control.commands import DEFAULT_PORTS
from fairlead.lab.node import inside
from fairlead.lab.run import health, home, process, ready
from fairlead.lab.run.home import LabHome
from fairlead.lab.run.starting import StartingLab
from fairlead.lab.run.state import Lab, save
from fairlead.lab.run.steps import StepPrinter

PART: Final = "monitor"
NAME: Final = "prometheus"
LIMIT: Final = 60.0
"""Seconds within which it must be ready; many times what an idle machine takes."""
_POD: Final = "__meta_kubernetes_pod"
"""The prefix of Prometheus' meta labels of a pod; dots and slashes of names become underscores there."""


def binaries(steps: StepPrinter) -> BuiltPrograms:
    """Return Prometheus and promtool; build them if they are missing."""
    return build([PART], steps)


def start(where: LabHome, name: str, steps: StepPrinter, rules: Path | None = None) -> Lab:
    """Start Prometheus in a running lab; if it runs already, restart it with these rules."""
    inside.nodes(where.get(name))
    check_rules(rules)
    with home.hold_lock(where.get(name).folder) as acquired:
        if not acquired:
            raise LabError(
                f"lab {name!r} is being started, changed or ended by another process", hint="try again"
            )
        lab = where.get(name)
        return launch(where, StartingLab(lab, lab.environ), steps, rules)


def launch(where: LabHome, running: StartingLab, steps: StepPrinter, rules: Path | None) -> Lab:
    """Start Prometheus and return when it is ready; the caller holds the lab's lock."""
    programs = binaries(steps)
    with steps.step(NAME) as step:
        folder = running.lab.folder / NAME
        _write(folder, running.lab, rules)
        _check(programs["promtool"], folder / "prometheus.yaml", rules)
        _expose(where, running)
        old = next((program for program in running.lab.programs if program.name == NAME), None)
        process.kill([old.process] if old else [])
        started = running.start(NAME, programs[NAME], _arguments(folder), running.lab.namespaces[0])
        ready.wait_healthy(lambda: health.is_healthy(running.lab, started), started, step.tick, LIMIT)
    return running.lab


def check_rules(rules: Path | None) -> None:
    """Raise if a folder of rules holds none."""
    if rules is not None and not any(rules.glob("*.yaml")):
        raise LabError(f"{rules}: no *.yaml files", hint="name a folder of *.yaml files of Prometheus rules")


def config(kubeconfig: Path, rules: Path) -> dict[str, Any]:
    """Return the configuration of Prometheus: it scrapes every matching pod once a second.

    A pod matches if it has a port named `metrics`, and either the usual annotation or fairlead's name label.
    The target labels are those of a PodMonitor, so the same rules work in both.
    """
    scrape, app = f"{_POD}_annotation_prometheus_io_scrape", f"{_POD}_label_app_kubernetes_io_name"
    port, part = f"{_POD}_container_port_name", f"{_POD}_label_app_kubernetes_io_component"
    rows: list[dict[str, Any]] = [
        {"source_labels": [scrape, app, port], "regex": "(true;.*|.*;fairlead);metrics", "action": "keep"},
        {"source_labels": [f"{_POD}_phase"], "regex": "Pending|Succeeded|Failed", "action": "drop"},
        _copy_label(f"{_POD}_annotation_prometheus_io_scheme", "__scheme__"),
        _copy_label(f"{_POD}_annotation_prometheus_io_path", "__metrics_path__"),
        _copy_label("__meta_kubernetes_namespace", "namespace"),
        _copy_label(f"{_POD}_name", "pod"),
        _copy_label(f"{_POD}_container_name", "container"),
        _copy_label(f"{_POD}_node_name", "node"),
        {
            "source_labels": ["__meta_kubernetes_namespace", app, part],
            "regex": "(.+);(.+);(.+)",
            "replacement": "$1/$2-$3",
            "target_label": "job",
        },
    ]
    pods = {"role": "pod", "kubeconfig_file": str(kubeconfig)}
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [f"{rules}/*.yaml"],
        "scrape_configs": [{"job_name": "pods", "kubernetes_sd_configs": [pods], "relabel_configs": rows}],
    }


def _copy_label(source: str, target: str) -> dict[str, Any]:
    return {"source_labels": [source], "regex": "(.+)", "target_label": target}


def _arguments(folder: Path) -> list[str]:
    return [
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{DEFAULT_PORTS[NAME]}",
        "--log.level=warn",
    ]


def _write(folder: Path, lab: Lab, rules: Path | None) -> None:
    """Write the configuration, with a copy of the rules: a node does not see all files of the host."""
    copies = folder / "rules"
    shutil.rmtree(copies, ignore_errors=True)
    copies.mkdir(parents=True)
    for path in sorted(rules.glob("*.yaml")) if rules else ():
        shutil.copyfile(path, copies / path.name)
    text = json.dumps(config(lab.folder / "keys" / "admin.kubeconfig", copies), indent=1)
    (folder / "prometheus.yaml").write_text(text, encoding="utf-8")


def _check(promtool: Path, path: Path, rules: Path | None) -> None:
    """Raise if Prometheus would reject the rules."""
    done = subprocess.run(  # noqa: S603  # no shell; every argument is ours
        [promtool, "check", "config", path], capture_output=True, check=False, text=True, errors="replace"
    )
    if done.returncode:
        output = (done.stderr or done.stdout).strip()
        raise LabError(f"{rules}: Prometheus rejects these rules:\n{output}", hint="correct them")


def _expose(where: LabHome, running: StartingLab) -> None:
    """Make Prometheus reachable from the host's loopback, unless it is already."""
    relay = f"{NAME}-relay"
    if any(program.name == relay and process.alive(program.process) for program in running.lab.programs):
        return
    with ExitStack() as stack:
        stack.enter_context(home.hold_root_lock(where))
        taken = [port for other in where.labs() for port in other.ports.values()]
        port = home.free_ports([NAME], taken)[NAME]
        listener = stack.enter_context(socket.create_server(("127.0.0.1", port), backlog=512))
        running.lab = save(replace(running.lab, ports={**running.lab.ports, NAME: port}))
        running.start_relay(listener, running.lab.namespaces[0], DEFAULT_PORTS[NAME], relay)
