"""`fairlead rightsize --local`: the history of this machine, with no cluster and none of its libraries."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from fairlead.history.store import JobHistory
from fairlead.ledger.place import StateDirectory
from tests.cli.examples import Run
from tests.cli.placement.test_rightsize import ROW, SAVING, TOP
from tests.local.jobs import WHOLE, asked, ended, learn, used


@pytest.fixture
def rightsize(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command as a user without a cluster."""
    monkeypatch.setenv("FAIRLEAD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return partial(run, "rightsize")


def keep_runs(requested_gpu: float = 12.0) -> None:
    """Run a command three times with a request for an accelerator, and another one without."""
    history = JobHistory.open(StateDirectory.open(os.environ), os.environ)
    for number in range(3):
        job = ended(number, requested=asked(requested_gpu), shares=WHOLE)
        learn(history, ("argv-1", "program-1"), "train.py", used((4.0,) * 4), job)
        learn(history, ("argv-2", "program-2"), "prepare.sh", used(ram=(2.0,) * 4), ended(number))


def test_the_document_has_the_shape_of_a_cluster_s(rightsize: Run) -> None:
    keep_runs()
    code, out, err = rightsize("--local", "-o", "json")
    document = json.loads(out)
    assert (code, err) == (1, "")
    assert list(document) == TOP
    assert list(document["saving"]) == SAVING
    shown = [(row["workload"], row["container"], row["verdict"]) for row in document["recommendations"]]
    assert shown == [
        ("prepare.sh", "memory", "right"),
        ("train.py", "gpu-mem", "over-provisioned"),
        ("train.py", "memory", "right"),
    ]
    for row in document["recommendations"]:
        assert set(row) == {*ROW, "risk_per_run"}
        assert row["risk_per_day"] is None
    assert document["recommendations"][1]["requested_bytes"] == 12 << 30


def test_the_history_is_read_by_default_where_there_is_no_cluster(rightsize: Run, tmp_path: Path) -> None:
    assert rightsize()[0] == 2, "there is neither"
    assert not (tmp_path / "state").exists()
    keep_runs()
    code, out, err = rightsize()
    assert (code, err) == (1, "fairlead: no cluster is configured: reading your history on this machine\n")
    assert "RISK/RUN" in out
    assert out.splitlines()[-1].startswith("1 of 3 rows should have another size, which saves 6.7 GiB")
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("")
    code, out, err = rightsize()
    assert (code, out) == (2, "")
    assert "--local" in err


def test_names_of_commands_select_rows(rightsize: Run) -> None:
    keep_runs()
    code, out, _ = rightsize("--local", "prepare.sh", "-o", "json")
    assert (code, [row["workload"] for row in json.loads(out)["recommendations"]]) == (0, ["prepare.sh"])
    code, _, err = rightsize("--local", "other.py")
    assert (code, err.splitlines()[0]) == (2, "fairlead: other.py: no such command has run here")


def test_an_empty_history_says_what_to_run(rightsize: Run) -> None:
    assert rightsize("--local") == (0, "no command has been measured here yet: fairlead run -- COMMAND\n", "")


@pytest.mark.parametrize("words", [("--apply",), ("-n", "shop"), ("--snapshot", "x"), ("--context", "c")])
def test_an_option_of_clusters_is_refused(rightsize: Run, words: tuple[str, ...]) -> None:
    code, _, err = rightsize("--local", *words)
    assert code == 2
    assert "does not go with --local" in err


def test_no_library_of_a_cluster_is_loaded(rightsize: Run) -> None:
    keep_runs()
    script = (
        "import sys; from fairlead.cli.main import main; main(['rightsize', '--local'])\n"
        "print([name for name in ('aiohttp', 'msgspec', 'yaml', 'numpy', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]"), done.stderr
