"""In an empty environment with the wheel and one extra, every command of the extra runs."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from fairlead.cli.main import COMMANDS
from fairlead.cli.shell.extras import EXTRAS
from fairlead.zoo.__main__ import main as zoo
from tests.cluster.loopback import Authority
from tests.latencies import lines, write
from tests.release import environments
from tests.release.conftest import Installed
from tests.release.environments import HOUSE, Environment, Release
from tests.release.stub import serve_stub
from tests.simulate.test_openb import NODES, PODS

pytestmark = pytest.mark.xdist_group("release")
DAY = ("--trace", "examples/simulate/day.yaml", "--cluster", "examples/simulate/fleet.yaml", "--until", "1h")
FLEET = ("--cluster", "examples/cluster.yaml", "--workloads", "examples/workloads.yaml")
MODEL = "models/mobilenet_v2.onnx"
NETWORK = """pipeline: p
stages:
  - {name: camera, source: numbers, options: {count: 2, shape: [48, 64, 3]}}
  - {name: net, run: mobilenet_v2.onnx, options: {resize: [224, 224], scale: 1/255, layout: nchw}}
  - {name: log, sink: stdout}
"""
CLUSTER = ("--kubeconfig", "stub.kubeconfig")
TLS = ("--tls-cert", "server.crt", "--tls-key", "server.key")
PROMISES: dict[str, tuple[tuple[int, tuple[str, ...]], ...]] = {
    "": (
        (0, ("detect", "--root", "machine")),
        (0, ("capture", "x.tar.gz", "--root", "machine")),
        (0, ("catalog", "lint")),
        (0, ("analyze", MODEL)),
        (0, ("serve", "agent", "--once", "--root", "machine")),
        (0, ("doctor", "--here", "-o", "json")),
        (0, ("profiles", "list")),
        (0, ("run", "--", "echo", "here")),
        (0, ("ps", "-a")),
        (0, ("top", "--once")),
        (1, ("logs", "no-such-job")),
        (1, ("cancel", "no-such-job")),
        (0, ("adopt", "--list")),
        (0, ("completion", "bash")),
        (0, ("docs", "schedule")),
        (0, ("examples", "cluster.yaml")),
        (0, ("manifests", "agent")),
    ),
    "run": ((0, ("run", "--cpus", "1", "--", "echo", "here")), (0, ("submit", "--", "true"))),
    "pipeline": (
        (0, ("pipeline", "check", "examples/pipeline/count.yaml")),
        (0, ("pipeline", "run", "examples/pipeline/count.yaml")),
        (0, ("pipeline", "plan", "--problem", "examples/pipeline/cut.json")),
        (2, ("pipeline", "plan", "--problem", "examples/pipeline/cut.json", "--solver", "milp")),
    ),
    "onnx": (
        (0, ("pipeline", "check", "models/pipeline.yaml")),
        (0, ("pipeline", "run", "models/pipeline.yaml")),
    ),
    "pipeline-video": ((0, ("pipeline", "check", "examples/pipeline/camera.yaml")),),
    "pipeline-plan": (
        (0, ("pipeline", "plan", "--problem", "examples/pipeline/cut.json", "--solver", "milp")),
    ),
    "pipeline-cluster": (
        (0, ("pipeline", "deploy", "examples/pipeline/count.yaml", "--name", "count", "--dry-run")),
    ),
    # Plain HTTP for other machines: refused once everything is imported.
    "augment": (
        (2, ("serve", "store", "--root", ".", "--token-file", "series.csv", "--listen", "0.0.0.0:0")),
    ),
    "pipeline-hosts": ((0, ("pipeline", "certificates", "keys", "--host", "edge,127.0.0.1")),),
    "predict": (
        (0, ("estimate", MODEL, "--on", "a100")),
        (0, ("reproduce", "devices", "--plot", "devices.svg")),
        (0, ("bench", "predict", "--data", "table.csv", "--calibration", "2")),
    ),
    "calibrate": (
        (0, ("calibrate", "--on", "cpu", "--models", "1", "--runs", "1")),
        (0, ("estimate", MODEL)),
    ),
    "cluster": (
        (0, ("nodes", *CLUSTER)),
        (0, ("devices", *CLUSTER, "--select", "device.driver.matches('^fairlead')")),
        (0, ("profiles", "list", *CLUSTER)),
        (0, ("retract", "--dry-run", *CLUSTER)),
        (1, ("doctor", *CLUSTER)),
    ),
    "agent": ((0, ("nodes", *CLUSTER)), (0, ("retract", "--dry-run", *CLUSTER))),
    "scheduler": (
        (1, ("schedule", *FLEET)),
        (0, ("schedule", "--live", *CLUSTER)),
        (0, ("snapshot", *CLUSTER)),
        (1, ("explain", "embedder", "--decision", "decision.json")),
        (0, ("rightsize", "--series", "series.csv", "--assume-request", "1.5x")),
        (0, ("replay", "recording")),
        (0, ("serve", "extender", "--print-config", "http://127.0.0.1:1")),
    ),
    "operator": (
        (0, ("nodes", *CLUSTER)),
        (0, ("pipeline", "certificates", "pki", "--host", "edge,127.0.0.1")),
    ),
    "simulate": (
        (0, ("simulate", *DAY, "--plot", "x.svg")),
        (0, ("reproduce", "gpu-sharing", "--levels", "0", "--plot", "x.svg")),
        (0, ("bench", "openb", "--pods", "pods.csv", "--nodes", "nodes.csv", "--seeds", "1")),
    ),
    # No GPU: a part is missing.
    "search": (
        (1, ("reproduce", "augment", "--images", "4", "--batches", "8", "--rounds", "1", "--without-split")),
    ),
    "lab": ((0, ("lab", "status")),),
    "dashboard": (
        (0, ("nodes", *CLUSTER)),
        (2, ("dashboard", "--snapshot", "cluster.yaml", "--allow", "cancel", "--listen", "127.0.0.1:0")),
    ),
    "all": ((1, ("schedule", *FLEET)), (0, ("estimate", MODEL, *CLUSTER))),
}
"""By extra: the exit code and the command line of each command that runs with it."""
RECORDING = """{"format": "fairlead-recording", "version": 1, "settings": {"me": "one"}}
{"now": 1.0, "event": "Cycle", "fields": {}}
{"effects":[]}
"""
PROGRAMS = {
    "agent": ("serve", "agent", "--publish", "labels", "--node", "n", "--root", "machine", "--listen", ":0"),
    "scheduler": ("serve", "scheduler", "--listen", "127.0.0.1:0"),
    "extender": ("serve", "extender", "--listen", "127.0.0.1:0"),
    "admission": ("serve", "admission", "--account", "a/b", "--listen", "127.0.0.1:0", *TLS),
    "operator": ("serve", "operator", "--listen", "127.0.0.1:0"),
    "dashboard": ("serve", "dashboard", "--listen", "127.0.0.1:0"),
}
"""Each runs with the extra of its name, or with that of the scheduler."""
PIPELINE = tuple(
    f"pipeline.{part}" for part in ("work", "endpoints", "programs", "models", "observe", "plan")
)
PACKAGES = {
    "run": ("local", "ledger", "history", "schedule", "-local.dashboard"),
    "dashboard": ("dashboard", "serve.dashboard", "local.dashboard"),
    "pipeline": PIPELINE,
    "pipeline-video": PIPELINE,
    "pipeline-hosts": ("pipeline",),
    "augment": ("store",),
    "pipeline-cluster": (*PIPELINE, "cluster"),
    "pipeline-plan": PIPELINE,
    "predict": ("estimate", "evaluate", "analyze", "zoo"),
    "calibrate": ("calibrate", "estimate"),
    "cluster": ("cluster", "doctor", "cel"),
    "agent": ("serve.agent", "attribution", "kubelet", "cluster", "warden", "publish"),
    "scheduler": (
        *("serve.scheduler", "serve.extender", "serve.admission", "serve.web"),
        *("schedule", "manifest", "cache", "whatif", "rightsize", "cluster"),
    ),
    "operator": ("serve.operator", "serve.leader", "cluster", "pipelineobjects"),
    "simulate": ("simulate", "reproduce", "sizing", "schedule", "manifest"),
    "lab": ("lab", "cluster"),
}
"""By extra: packages whose modules can all be imported, but for a part (-) that is another extra's."""
IMPORTS = """
import importlib, pkgutil, sys
others = tuple(f"fairlead.{word[1:]}" for word in sys.argv[1:] if word[0] == "-")
for package in (word for word in sys.argv[1:] if word[0] != "-"):
    top = importlib.import_module(f"fairlead.{package}")
    for each in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
        if not each.name.endswith("__main__") and not each.name.startswith(others or ("-",)):
            importlib.import_module(each.name)
"""
COMMANDS_WITH_AN_EXTRA: tuple[tuple[str, ...], ...] = (
    ("submit", "--", "true"),
    ("pipeline", "check", "examples/pipeline/count.yaml"),
    ("estimate", MODEL, "--on", "a100"),
    ("bench", "predict", "--data", "table.csv"),
    ("bench", "openb", "--pods", "pods.csv", "--nodes", "nodes.csv"),
    ("calibrate",),
    ("profiles", "list", *CLUSTER),
    ("nodes", *CLUSTER),
    ("snapshot", *CLUSTER),
    ("doctor", *CLUSTER),
    ("retract", "--dry-run", *CLUSTER),
    ("schedule", *FLEET),
    ("explain", "default/x", *CLUSTER),
    ("rightsize", "--series", "series.csv", *CLUSTER),
    ("replay", "recording"),
    ("simulate", *DAY),
    ("reproduce", "gpu-sharing"),
    ("serve", "agent", "--publish", "labels", "--root", "machine", *CLUSTER),
    ("serve", "scheduler", *CLUSTER),
    ("serve", "extender", *CLUSTER),
    ("serve", "admission", "--account", "a/b", *TLS, *CLUSTER),
    ("serve", "operator", *CLUSTER),
    ("serve", "store", "--root", ".", "--token-file", "series.csv"),
    ("lab", "build", "--profile", "api"),
)
"""Commands that need more than Python."""


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the input files of the commands."""
    workdir = tmp_path_factory.mktemp("workdir")
    zoo([str(workdir / "models"), "mobilenet_v2"])
    os.symlink(HOUSE / "tests/hosts/jetson-nano-coral-usb/root", workdir / "machine")
    os.symlink(HOUSE / "examples", workdir / "examples")
    (workdir / "models/pipeline.yaml").write_text(NETWORK)
    write(workdir, lines(3, 8))
    (workdir / "recording").write_text(RECORDING)
    (workdir / "series.csv").write_text("timestamp,value,id\n0,1073741824,one\n")
    (workdir / "nodes.csv").write_text(NODES)
    (workdir / "pods.csv").write_text(PODS)
    pair = Authority().leaf("server")
    (workdir / "server.crt").write_bytes(pair.certificate)
    (workdir / "server.key").write_bytes(pair.key)
    return workdir


def test_every_command_is_in_the_table_of_extras(release: Release) -> None:
    assert {name.partition(" ")[0] for name in EXTRAS} == set(COMMANDS)
    known = environments.extras(release.metadata())
    assert set(EXTRAS.values()) - {""} <= known
    assert set(PROMISES) - {""} == known


@pytest.mark.parametrize("extra", PROMISES)
def test_every_command_of_an_extra_runs(installed: Installed, workdir: Path, extra: str) -> None:
    env = installed(extra)
    with serve_stub(workdir):
        for code, words in PROMISES[extra]:
            if words[0] == "explain":
                decided = env.run("schedule", *FLEET, "-o", "json", cwd=workdir)
                (workdir / "decision.json").write_text(decided.stdout)
            done = env.run(*words, cwd=workdir)
            assert (done.returncode, _fault_in(done.stderr)) == (code, ""), (words, done.stderr)
            assert done.stdout or done.stderr, words


@pytest.mark.parametrize("extra", PACKAGES)
def test_every_module_of_an_extras_packages_can_be_imported(
    installed: Installed, workdir: Path, extra: str
) -> None:
    command = [str(installed(extra).python), "-I", "-c", IMPORTS, *PACKAGES[extra]]
    done = subprocess.run(command, cwd=workdir, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_until_sigterm(installed: Installed, workdir: Path, program: str) -> None:
    env = installed(program if program in PROMISES else "scheduler")
    with serve_stub(workdir) as server:
        running = subprocess.Popen(
            env.command(*PROGRAMS[program], *CLUSTER),
            cwd=workdir,
            env=environments.environ(workdir),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        asked = server.asked.wait(300) if program != "admission" else _prints_a_line(running)
        running.send_signal(signal.SIGTERM)
        _, log = running.communicate(timeout=300)
    assert asked, log
    assert _fault_in(log) == ""
    assert running.returncode in (0, -signal.SIGTERM), log


@pytest.mark.parametrize("words", COMMANDS_WITH_AN_EXTRA, ids=lambda words: " ".join(words[:2]))
def test_a_missing_module_is_reported_with_its_extra(
    core: Environment, workdir: Path, words: tuple[str, ...]
) -> None:
    with serve_stub(workdir):
        done = core.run(*words, cwd=workdir)
    extra = EXTRAS.get(" ".join(words[:2])) or EXTRAS[words[0]]
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    first, hint = done.stderr.splitlines()
    assert re.match(r"fairlead: .* needs ", first)
    assert hint == f"  pip --python {core.python} install 'fairlead[{extra}]'"


def test_the_advice_installs_the_extra(installed: Installed) -> None:
    """pip follows the advice and finds nothing missing."""
    done = environments.pip(installed("all"), "install", "fairlead[all]")
    assert (done.returncode, done.stderr) == (0, "")


def _fault_in(log: str) -> str:
    return log if "Traceback" in log or "this is a fault of fairlead" in log else ""


def _prints_a_line(program: "subprocess.Popen[str]") -> bool:
    assert program.stderr is not None
    return bool(program.stderr.readline())
