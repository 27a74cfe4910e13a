"""The contract: commands, options, field names and exit codes that users depend on. Change them knowingly."""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from fairlead import __version__
from fairlead.catalog import Catalog
from fairlead.catalog.device import KINDS
from fairlead.cli.main import build_parser, main
from fairlead.inventory import State
from fairlead.job import LocalState
from tests.cli.local.worlds import job
from tests.worlds import Files, Special, World, crowded, usb

FAIRLEAD = (sys.executable, "-m", "fairlead")
FOLDER = Special.FOLDER
HELP = {"-h", "--help"}
MEASURING = ("--frames", "--seconds", "--class", "--catalog")
HOST_TLS = ("--ca", "--cert", "--key", "--insecure", "--insecure-network")
IN_CLUSTER = ("-n", "--namespace", "--kubeconfig", "--context", "--wait", "--timeout")
DASHBOARD = {
    *("--listen", "--host", "--tls-cert", "--tls-key", "--allow", "--kubeconfig", "--context", "--catalog"),
    *("--agents", "--prometheus", "--prometheus-token-file", "--prometheus-ca-file"),
}
SESSION = ("--session", "--local", "--device", *IN_CLUSTER[:4])
OUTPUT = {"-o", "--output", "--color"}
TRAINING = ("--train", "--optimizer", "--checkpointing", "--samples", "--epochs")
LISTING = {*OUTPUT, "--no-headers", "--sort-by"}
DETECT = {"--root", "--no-nvml", "--catalog"}
JOB = {
    "--after",
    "--cpus",
    "--device",
    "--gpu-compute",
    "--gpu-mem",
    "--gpus",
    "--limiter",
    "--memory",
    "--model",
    "--name",
    "--priority",
    "-q",
    "--quiet",
    "--shape",
    "--slo",
    "--timeout",
}
COMMANDS: dict[str, set[str]] = {
    "run": {*JOB, "COMMAND"},
    "submit": {*JOB, *OUTPUT, "--from", "COMMAND"},
    "ps": {"-a", "--all", "-u", "--user", *LISTING},
    "top": {"--once", "--until-idle", "-d", "--delay", "--color"},
    "logs": {"JOB", "-f", "--follow", "-n", "--lines"},
    "cancel": {"JOB", "--all", "--grace", "--kill", "--no-wait"},
    "adopt": {"PID", "--list", "--name", "--gpu-mem", *LISTING},
    "augment create": {
        *("--local", "--listen", "--slow"),
        *("NAME", "--device", "--size", "--fast", "--class", "--access-mode", "--image", "--env", "--digest"),
        *("--gpu-mem", "--gpu-compute", "--port", "--user", "--writable-root", "--command", "--service"),
        *("--host", "--store-image", "--scheduler", "--dry-run", *IN_CLUSTER, *OUTPUT),
    },
    "augment list": {"--local", "-A", "--all-namespaces", *IN_CLUSTER[:4], *LISTING},
    "augment show": {"--local", "NAME", *IN_CLUSTER[:4], *OUTPUT},
    "augment delete": {"--local", "NAME", "--delete-data", *IN_CLUSTER, *OUTPUT},
    "pipeline check": {"FILE", "--connect", *HOST_TLS, *OUTPUT},
    "pipeline run": {
        "FILE",
        "-q",
        "--quiet",
        "--metrics",
        "--trace",
        "--trace-every",
        "--state",
        "--resume",
        "--replan",
        "--profile",
        "--follow",
        "--hosts-within",
        *HOST_TLS,
        *OUTPUT,
    },
    "pipeline worker": {"--listen", "--folder", "--grace", "--health", *HOST_TLS},
    "pipeline deploy": {
        *("FILE", "--name", "--no-files", "--include", "--dry-run"),
        *("--profile", "--max-latency", "--objective", "--link", *IN_CLUSTER, *OUTPUT),
    },
    "pipeline status": {"NAME|FILE", *IN_CLUSTER, *OUTPUT} - {"--wait", "--timeout"},
    "pipeline drain": {"NAME|FILE", *IN_CLUSTER, *OUTPUT},
    "pipeline delete": {"NAME|FILE", *IN_CLUSTER, *OUTPUT},
    "pipeline certificates": {"DIR", "--host", "--days"},
    "pipeline profile": {"FILE", "--out", *MEASURING, *HOST_TLS, *OUTPUT},
    "pipeline plan": {
        *("FILE", "--problem", "--explore", "--solver", "--profile", "--max-latency", "--objective"),
        *("--link", "--replicas", "--out", *MEASURING, *HOST_TLS, *OUTPUT),
    },
    "pipeline top": {"FILE|NAME|PID", "--once", "-d", "--delay", *IN_CLUSTER, *OUTPUT}
    - {"--wait", "--timeout"},
    "augment resize": {"--local", "NAME", "SIZE", "--fast", "--reclaim", *IN_CLUSTER, *OUTPUT},
    "augment rotate": {"--local", "NAME", *IN_CLUSTER, *OUTPUT},
    "augment rightsize": {"-A", "--all-namespaces", *IN_CLUSTER[:4], *LISTING},
    "augment submit": {
        *("--inputs", "--base", "--follow", "--command", "--function", "--model", "--with", "--option"),
        *("--checkpoint-save", "--checkpoint-resume", "--checkpoint-every", "--out", "--on", "--policy"),
        *("--slots", "--name", "--explain", *SESSION, *OUTPUT),
    },
    "augment resume": {"JOB", "--explain", *SESSION, *OUTPUT},
    "augment jobs": {"JOB", "--explain", *SESSION, *LISTING},
    "augment logs": {"JOB", *SESSION, *LISTING},
    "augment cancel": {"JOB", *SESSION, *OUTPUT},
    "augment work": {"--local", "--name", "--slots", "--until-idle"},
    "augment invite": {
        "--local",
        "NAME",
        *IN_CLUSTER[:4],
        "--url",
        "--key-file",
        "--cert",
        "--device",
        "--valid-for",
        *OUTPUT,
    },
    "device join": {"URL", "--token", "--fingerprint", "--name", "--command", "--image", *OUTPUT},
    "device rotate": {"--name"},
    "device work": {"--name", "--slots", "--until-idle"},
    "device status": {"--name", *OUTPUT},
    "device put": {
        *("FILE", "--to", "-r", "--recursive", "--replace", "--link", "--queue-only", "--name"),
    },
    "device get": {"PATH", "FILE", "--name"},
    "device ls": {"PATH", "--name", *LISTING},
    "device sync": {"--follow", "--retry", "--name"},
    "device unit": {"--name"},
    "device leave": {"--discard", "--name"},
    "augment tier": {
        *("--trace", "--capacity", "--status", "--explain", "--ssd", "--hdd", "--seek", *OUTPUT),
    },
    "dashboard": {"--snapshot", "--model", "--simulation", "--token-file", *DASHBOARD},
    "serve dashboard": DASHBOARD,
    "detect": {*DETECT, *LISTING, "--legacy-labels", "-v", "--verbose"},
    "capture": {"FILE", "--root", "--no-nvml", "--catalog"},
    "catalog list": {"--kind", "--vendor", "--catalog", *LISTING},
    "catalog show": {"DEVICE", "--catalog", *OUTPUT},
    "catalog lint": {"--catalog", *OUTPUT},
    "analyze": {"MODEL", "--shape", "--batch", "--precision", *TRAINING, *OUTPUT, "-v", "--verbose"},
    "calibrate": {
        "--on",
        "--models",
        "--runs",
        "--threads",
        "--precision",
        "--out",
        "--cluster",
        "--kubeconfig",
        "--context",
        "--node",
        "--catalog",
        *OUTPUT,
    },
    "profiles list": {"--folder", "--cluster", "--kubeconfig", "--context", *LISTING},
    "profiles show": {"SETUP", "--folder", "--cluster", "--kubeconfig", "--context", *OUTPUT},
    "profiles delete": {
        "SETUP",
        "--yes",
        "--folder",
        "--cluster",
        "--kubeconfig",
        "--context",
        *OUTPUT,
    },
    "profiles import": {
        "FILE",
        "--model",
        "--shape",
        "--node",
        "--from-manifest",
        "--volume-root",
        "--image-archive",
        "--out",
        "--profiles-out",
        "--from-cluster",
        "--watch",
        "--namespace",
        "-n",
        "--kubeconfig",
        "--context",
        *OUTPUT,
    },
    "profiles export": {"--folder", "--kubeconfig", "--context", *OUTPUT},
    "estimate": {
        "MODEL",
        "--on",
        "--precision",
        "--batch",
        "--slo",
        "--shape",
        "--profiles",
        "--cluster",
        "--kubeconfig",
        "--context",
        "--catalog",
        *TRAINING,
        "--federated",
        "--link",
        *LISTING,
    },
    "schedule": {
        "--live",
        "--kubeconfig",
        "--context",
        "--cluster",
        "--snapshot",
        "--here",
        "--workloads",
        "--policy",
        "--no-preemption",
        "--explain",
        "--profiles",
        "--catalog",
        *LISTING,
    },
    "explain": {
        "POD",
        "PIPELINE",
        "--decision",
        "--snapshot",
        "-v",
        "--verbose",
        "--kubeconfig",
        "--context",
        "-n",
        "--namespace",
        "--local",
        "--lease-namespace",
        "--catalog",
        *OUTPUT,
    },
    "doctor": {
        "--here",
        "--scheduler",
        "--prometheus",
        "--prometheus-token-file",
        "--prometheus-ca-file",
        "-q",
        "--quiet",
        "--kubeconfig",
        "--context",
        "--catalog",
        *LISTING,
    },
    "debug-dump": {"--out", "--here", "--log-lines", "--scheduler", *IN_CLUSTER[2:4], "--catalog", *OUTPUT},
    "replay": {"FILE", "--effects", "--until", "--debug", "--catalog", *OUTPUT},
    "snapshot": {"--kubeconfig", "--context", "--catalog", "--out", *OUTPUT},
    "simulate": {
        "--trace",
        "--generate",
        "--cluster",
        "--policy",
        "--seed",
        "--interference",
        "--queue",
        "--over-provision",
        "--pace",
        "--duration",
        "--mtbf",
        "--mttr",
        "--keep-progress",
        "--no-preemption",
        "--until",
        "--plot",
        "--catalog",
        *OUTPUT,
    },
    "reproduce gpu-sharing": {
        "--workload",
        "--levels",
        "--arrival-seed",
        "--without-profile",
        "--frontier",
        "--plot",
        *OUTPUT,
    },
    "reproduce pipeline": {
        "--quick",
        "--sizes",
        "--kernel",
        "--rate",
        "--delay",
        "--loss",
        "--edge-cpu",
        "--lab",
        "--images",
        "--rounds",
        "--plot",
        *OUTPUT,
    },
    "reproduce augment": {
        *("--quick", "--images", "--set-size", "--image-size", "--batches", "--edge-cpu", "--rounds"),
        *("--without-split", "--lab", "--plot", *OUTPUT),
    },
    "reproduce devices": {"--plot", "--catalog", *OUTPUT},
    "reproduce all": {"--out", "--quick", "--only", *OUTPUT},
    "rightsize": {
        "WORKLOAD",
        "--prometheus",
        "--prometheus-token-file",
        "--prometheus-ca-file",
        "--series",
        "--local",
        "--snapshot",
        "--assume-request",
        "--device-memory",
        "-n",
        "--namespace",
        "-A",
        "--all-namespaces",
        "--bound",
        "--window",
        "--min-samples",
        "--apply",
        "--undo",
        "--dry-run",
        "--yes",
        "--kubeconfig",
        "--context",
        "--catalog",
        *OUTPUT,
    },
    "bench openb": {"--pods", "--nodes", "--policy", "--seeds", *OUTPUT},
    "bench share": {
        *("--engines", "--queries", "--modes", "--limiters", "--runtimes", "--device", "--seed", "--limit"),
        *("--enforce", "--engine", "--rounds", "--plot", "--out", "--resume", *OUTPUT),
    },
    "bench split": {
        *("--rates", "--inputs", "--seconds", "--link", "--event", "--rule", "--size", "--seed", *OUTPUT),
    },
    "bench predict": {"--data", "--protocol", "--calibration", "--seed", "--catalog", *LISTING},
    "nodes": {
        "--kubeconfig",
        "--context",
        "-l",
        "--selector",
        "-w",
        "--watch",
        *LISTING,
    },
    "devices": {
        "-f",
        "--file",
        "--select",
        "--class",
        "--claim",
        "-n",
        "--namespace",
        "--kubeconfig",
        "--context",
        "-o",
        "--output",
        "--no-headers",
        "--sort-by",
        "--color",
    },
    "serve agent": {
        "--listen",
        "--root",
        "--no-nvml",
        "--catalog",
        "--sweep",
        "--sample",
        "--no-uevents",
        "--dcgm-names",
        "--ignore-xids",
        "--attribution",
        "--container-links",
        "--once",
        "--tls-cert",
        "--tls-key",
        "--token-file",
        "--host-root",
        "--no-dev",
        "--publish",
        "--node",
        "--legacy-labels",
        "--kubelet-dir",
        "--warden",
        "--limiter",
        "--limit-hami",
        "--no-cdi",
        "--memory-unit",
        "--most-units",
        "--nvidia",
        "--device-root",
        "--kubeconfig",
        "--context",
    },
    "serve scheduler": {
        "--name",
        "--policy",
        "--listen",
        "--in-flight",
        "--no-own-claims",
        "--usage",
        "--prometheus",
        "--prometheus-token-file",
        "--prometheus-ca-file",
        "--usage-period",
        "--oom-bound",
        "--record",
        "--lease-namespace",
        "--leader-elect-lease-duration",
        "--leader-elect-renew-deadline",
        "--leader-elect-retry-period",
        "--kubeconfig",
        "--context",
        "--catalog",
    },
    "serve extender": {
        "--policy",
        "--listen",
        "--tls-cert",
        "--tls-key",
        "--client-ca",
        "--print-config",
        "--kubeconfig",
        "--context",
        "--catalog",
    },
    "serve operator": {
        "--listen",
        "--tls-cert",
        "--tls-key",
        "--in-flight",
        "--pipeline-image",
        "--store-image",
        "--lease-namespace",
        "--leader-elect-lease-duration",
        "--leader-elect-renew-deadline",
        "--leader-elect-retry-period",
        "--kubeconfig",
        "--context",
    },
    "serve store": {
        "--root",
        "--listen",
        "--token-file",
        "--tls-cert",
        "--tls-key",
        "--quota",
        "--quota-file",
        "--rate",
        "--threads",
        "--no-sync",
        "--session",
        "--also",
        "--trace",
        "--freeze-file",
        "--metrics",
        "--state",
        "--invite-key-file",
    },
    "serve tier": {
        *("--fast", "--slow", "--capacity", "--policy", "--trace", "--choose-every"),
        *("--ssd", "--hdd", "--seek"),
    },
    "serve admission": {
        "--account",
        "--name",
        "--protect",
        "--guard",
        "--listen",
        "--tls-cert",
        "--tls-key",
        "--kubeconfig",
        "--context",
    },
    "retract": {
        "NODE",
        "--check",
        "--force",
        "--kubeconfig",
        "--context",
        "--dry-run",
        "--wait",
        "--yes",
        *OUTPUT,
    },
    "manifests": {"NAME", "--out", "-o", "--output", "--no-headers", "--sort-by", "--color"},
    "examples": {"NAME", "--out", "-o", "--output", "--no-headers", "--sort-by", "--color"},
    "docs": {"TOPIC", "-o", "--output", "--no-headers", "--sort-by", "--color"},
    "warden open": {"--group", "--folder", "--copy"},
    "warden limit": {"--group", "--folder", "--program"},
    "warden attribute": {"--group", "--folder", "--nvml", "--proc", "--sys", "--debugfs"},
    "warden serve": {"--group", "--folder", "--pod-resources", "--cdi-dir", "--device-root"},
    "completion bash": set(),
    "completion zsh": set(),
    "completion fish": set(),
    "completion words": {"--shell", "WORD"},
}
"""Every command, with its options and arguments."""
FROZEN_ELSEWHERE = {"lab"}

HOST = ["arch", "board", "compatible", "cpus", "memory_bytes", "release", "problems"]
ACCELERATOR = [
    "id",
    "model",
    "name",
    "vendor",
    "kind",
    "state",
    "reason",
    "confidence",
    "candidates",
    "memory_bytes",
    "unified_memory",
    "peak_ops",
    "effective_ops",
    "power_w",
    "bus",
    "link",
    "driver",
    "driver_version",
    "product",
    "uuid",
    "node",
    "engines",
    "shareable",
    "mig",
    "mig_instances",
    "evidence",
]
UNKNOWN = ["bus", "ids", "driver", "reason"]
JOB_DOCUMENT = [
    "id",
    "name",
    "user",
    "state",
    "exit_code",
    "device",
    "requested",
    "reason",
    "submitted_at",
    "started_at",
    "ended_at",
]
"""The contract of `ps -o json`, for each of `jobs`."""
DEVICE = [
    "id",
    "name",
    "vendor",
    "kind",
    "family",
    "aliases",
    "generic",
    "shareable",
    "peak_ops",
    "ops_per_core_cycle",
    "clock_hz",
    "memory_bytes",
    "memory_bytes_per_second",
    "unified_memory",
    "power_w",
    "power_min_w",
    "link",
    "drivers",
    "engines",
    "match",
    "variants",
    "unverified",
    "sources",
    "note",
    "origin",
]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command and return its exit code, stdout and stderr."""

    def call(*argv: str) -> tuple[int, str, str]:
        try:
            code = main(argv)
        except SystemExit as end:  # raised by argparse
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def root(world: World) -> str:
    """Return the root of a machine with something on every bus."""
    return world(crowded()).root


def leaves(command: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the commands without subcommands, with their full names."""
    subs = [action for action in command._actions if isinstance(action, argparse._SubParsersAction)]
    if not subs:
        yield name, command
    for verb, below in subs[0].choices.items() if subs else ():
        yield from leaves(below, f"{name} {verb}".strip())


def test_the_command_line_is_frozen() -> None:
    found = {
        name: {word for action in command._actions for word in action.option_strings or [str(action.metavar)]}
        - HELP
        for name, command in leaves(build_parser())
        if name.split()[0] not in FROZEN_ELSEWHERE
    }
    assert found == COMMANDS


def test_help_lists_every_command(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(re.search(rf"^    {name.split()[0]}\s", out, re.MULTILINE) for name in COMMANDS)
    assert "Exit codes: 0 done, 1 the answer is no, 2 you must change something, 3" in " ".join(out.split())
    assert "3 the cluster is unavailable, 70 a fault of fairlead, 74 the disk" in " ".join(out.split())
    assert run("--version")[1] == f"fairlead {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_has_help(run: Run, command: str) -> None:
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    (parsed,) = [below for name, below in leaves(build_parser()) if name == command]
    assert all(action.help for action in parsed._actions)
    assert out.startswith(f"usage: fairlead {command} ")


def test_help_loads_nothing_heavy() -> None:
    """--help is fast: only the commands themselves load the catalog, the scanners and ctypes."""
    code = (
        "import sys, fairlead.cli.main as m\ntry: m.main(['--help'])\nexcept SystemExit: pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    heavy = {"fairlead.catalog", "fairlead.detect", "fairlead.host", "fairlead.nvml", "fairlead.serve"}
    heavy |= {"ctypes", "tarfile", "tomllib", "socket", "yaml", "http.server"}
    assert "fairlead.cli.main" in loaded
    assert not loaded & heavy


def test_the_document_of_detect_is_frozen(run: Run, root: str) -> None:
    code, out, err = run("detect", "--root", root, "-o", "json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert list(document) == ["host", "accelerators", "unknown"]
    assert list(document["host"]) == HOST
    assert document["accelerators"]
    assert document["unknown"]
    for accelerator in document["accelerators"]:
        assert list(accelerator) == ACCELERATOR
        assert accelerator["kind"] in ("cpu", "gpu", "tpu", "npu", "vpu", "dsp", "fpga")
        assert accelerator["state"] in ("present", "driver-bound", "usable", "healthy")
        for item in accelerator["evidence"]:
            assert list(item) == ["source", "path", "says"]
            assert item["source"] in ("dt", "pci", "usb", "class", "driver", "node", "nvml", "proc")
        for engine in accelerator["engines"]:
            assert list(engine) == ["name", "kind", "state"]
        assert accelerator["link"] is None or list(accelerator["link"]) == [
            "bits_per_second",
            "best_bits_per_second",
        ]
    assert all(list(unknown) == UNKNOWN for unknown in document["unknown"])
    assert any(accelerator["link"] for accelerator in document["accelerators"])
    assert any(accelerator["engines"] for accelerator in document["accelerators"])


def test_the_document_of_a_job_is_frozen() -> None:
    document = job(1).to_json()
    assert list(document) == JOB_DOCUMENT
    assert list(document["requested"]) == ["cpus", "memory_bytes", "gpu_mem_bytes"]
    assert [state.value for state in LocalState] == ["queued", "running", "done", "failed", "cancelled"]


def test_kinds_and_states_are_frozen() -> None:
    assert KINDS == ("cpu", "gpu", "tpu", "npu", "vpu", "dsp", "fpga")
    assert [state.value for state in State] == ["present", "driver-bound", "usable", "healthy"]


@pytest.mark.parametrize(
    "command",
    [
        ["detect", "--root", "{root}"],
        ["catalog", "show", "jetson-agx-orin"],
        ["catalog", "list", "--kind", "tpu"],
        ["catalog", "lint"],
    ],
)
def test_yaml_is_the_same_document_as_json(run: Run, root: str, command: list[str]) -> None:
    argv = [word.format(root=root) for word in command]
    as_json, as_yaml = run(*argv, "-o", "json")[1], run(*argv, "-o", "yaml")[1]
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_labels_are_lines_of_key_and_value(run: Run, root: str) -> None:
    code, out, _ = run("detect", "--root", root, "-o", "labels")
    lines = out.splitlines()
    assert code == 0
    assert lines == sorted(lines, key=lambda line: line.partition("="))
    assert all(line.startswith("fairlead.dev/") and line.count("=") == 1 for line in lines)
    assert "fairlead.dev/jetson-agx-orin.count=1" in lines
    more = run("detect", "--root", root, "-o", "labels", "--legacy-labels")[1].splitlines()
    assert set(lines) < set(more)
    assert {line.partition("=")[0] for line in set(more) - set(lines)} == {
        "gpu.model",
        "gpu.driver",
        "gpu.resource",
        "gpu.vendor.id",
        "gpu.product.id",
    }


def test_a_table_is_for_people(run: Run, root: str) -> None:
    _, out, _ = run("detect", "--root", root)
    lines = out.splitlines()
    assert lines[0].startswith("NVIDIA Jetson AGX Orin Developer Kit, aarch64, 1 CPU, 60 GiB RAM, R36.4.3")
    assert lines[1].split()[:3] == ["ACCELERATOR", "MODEL", "KIND"]
    assert any(line.startswith("unknown device abcd:0001 at pci:0000:05:00.0: ") for line in lines)
    assert len(run("detect", "--root", root, "-v")[1].splitlines()) > len(lines)


def test_a_machine_without_accelerators_is_no_error(run: Run, world: World) -> None:
    root = world({"/proc/version": "Linux version 6.8"}).root
    for output in ("table", "json", "yaml", "labels"):
        code, out, err = run("detect", "--root", root, "-o", output)
        assert (code, err) == (0, "")
        assert out.strip() or output == "labels"


@pytest.mark.parametrize("command", [("detect",), ("capture", "{folder}/x.tar.gz")])
@pytest.mark.parametrize("files", [{}, {"/readme.txt": "x"}, {"/proc": FOLDER, "/sys": FOLDER}])
def test_a_root_that_holds_no_machine_is_refused(
    run: Run, world: World, tmp_path: Path, command: tuple[str, ...], files: Files
) -> None:
    root = world(files).root
    code, out, err = run(*(word.format(folder=tmp_path) for word in command), "--root", root)
    assert (code, out) == (2, "")
    first, hint = err.splitlines()
    assert first == f"fairlead: {root}: not the root of a machine: its proc and sys are empty or missing"
    assert "/proc and /sys" in hint
    assert not (tmp_path / "x.tar.gz").exists()


def test_this_machine_has_at_least_a_cpu(run: Run) -> None:
    code, out, _ = run("detect", "-o", "json")
    assert code == 0
    assert "cpu" in [acc["kind"] for acc in json.loads(out)["accelerators"]] or sys.platform != "linux"


def test_catalog_documents_are_frozen(run: Run, catalog: Catalog) -> None:
    document = json.loads(run("catalog", "show", "jetson-nano", "-o", "json")[1])
    assert list(document) == DEVICE
    assert list(document["variants"][0]) == ["name", "memory_bytes", "peak_ops", "power_w", "match"]
    assert list(document["drivers"][0]) == ["name", "class", "nodes", "hint"]
    assert len(json.loads(run("catalog", "list", "-o", "json")[1])) == len(catalog.devices)
    assert json.loads(run("catalog", "lint", "-o", "json")[1]) == {
        "devices": len(catalog.devices),
        "faults": [],
    }


@pytest.mark.parametrize(
    ("argv", "rows"),
    [(["--kind", "tpu"], {"tpu"}), (["--vendor", "gOOgle"], {"tpu", "npu"})],
)
def test_the_catalog_can_be_filtered(run: Run, argv: list[str], rows: set[str]) -> None:
    _, out, _ = run("catalog", "list", *argv, "-o", "json")
    assert {row["kind"] for row in json.loads(out)} <= rows
    table = run("catalog", "list", *argv)[1].splitlines()
    assert table[0].split() == ["ID", "NAME", "VENDOR", "KIND", "PEAK", "MEMORY", "POWER"]
    assert bool(table[1:]) == bool(rows)


def test_a_list_is_printed_for_scripts(run: Run) -> None:
    whole = run("catalog", "list", "--kind", "tpu")[1].splitlines()
    assert run("catalog", "list", "--kind", "tpu", "--no-headers")[1].splitlines() == whole[1:]
    names = run("catalog", "list", "--kind", "tpu", "-o", "name")[1].splitlines()
    assert names == [line.split()[0] for line in whole[1:]]


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("google-coral-tpu", "coral-usb"),
        ("H100", "h100"),
        ("Jetson-Nano", "jetson-nano"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
    ],
)
def test_a_device_is_shown_by_alias_and_product_name_and_as_yaml_by_default(
    run: Run, name: str, device: str
) -> None:
    _, out, _ = run("catalog", "show", name)
    assert yaml.safe_load(out)["id"] == device


def test_a_users_own_device_is_detected(run: Run, world: World, tmp_path: Path) -> None:
    host = world(usb("1-1", "cafe:0001"))
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'schema = 1\n[[device]]\nid = "my-stick"\nname = "My Stick"\nvendor = "Me"\nkind = "npu"\n'
        'match.usb = ["cafe:0001"]\nunverified = ["peak"]\ndriver = [{userspace = true}]\n'
    )
    code, out, _ = run("detect", "--root", host.root, "--catalog", str(mine), "-o", "json")
    assert (code, json.loads(out)["accelerators"][0]["model"]) == (0, "my-stick")
    assert run("catalog", "lint", "--catalog", str(mine))[0] == 0
    mine.write_text(mine.read_text().replace("cafe:0001", "18d1:9302"))
    code, out, _ = run("catalog", "lint", "--catalog", str(mine))
    assert code == 1
    assert "coral-usb and my-stick both claim USB 18d1:9302" in out


def test_a_capture_is_detected_like_its_machine(run: Run, root: str, tmp_path: Path) -> None:
    file = str(tmp_path / "board.tar.gz")
    code, out, err = run("capture", file, "--root", root)
    assert (code, out) == (0, "")
    assert f"fairlead detect --root {file}" in err
    assert run("detect", "--root", file) == run("detect", "--root", root)
    again = str(tmp_path / "again.tar.gz")
    assert run("capture", again, "--root", file)[0] == 0
    assert run("detect", "--root", again) == run("detect", "--root", root)


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([*FAIRLEAD, "detect", "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: fairlead detect ")


def test_the_installed_program_runs(root: str) -> None:
    program = os.path.join(os.path.dirname(sys.executable), "fairlead")
    done = subprocess.run([program, "detect", "--root", root], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
