"""A whole comparison: played engines in the real queue and in pools, on the processor and on a played GPU."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fairlead.errors import MissingPartError, UserError
from fairlead.history.store import JobHistory
from fairlead.ledger.place import StateDirectory
from fairlead.nvml import Gpu
from fairlead.sharebench.arrangements import Arrangement, arrangements_of, job_options
from fairlead.sharebench.comparison import Comparison
from fairlead.sharebench.enforce import exceeds
from fairlead.sharebench.figures import SoloRun
from fairlead.sharebench.sampler import Sampler
from fairlead.units import Bytes
from tests.limiter.control import processes_below, write_control
from tests.sharebench.worlds import played_plan
from tests.test_nvml import built, needs_compiler

GPU = Gpu(0, "0000:3b:00.0", "NVIDIA H200", "GPU-1", Bytes(1 << 37), None, "550", None)


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder with a short path: those of sockets have 107 bytes."""
    with TemporaryDirectory(prefix="share-", ignore_cleanup_errors=True) as path:
        yield path


def test_one_engine_alone_runs_under_mps_only_where_nothing_else_is_asked_for() -> None:
    modes = ("exclusive", "fixed-4", "fairlead-safe")
    names = [each.name for each in arrangements_of(modes, ("plain", "mps"))]
    assert names == [
        *("exclusive, plain", "fixed-4, plain", "fairlead-safe, plain"),
        *("fixed-4, mps", "fairlead-safe, mps"),
    ]
    assert arrangements_of(modes, ("mps",))[0] == Arrangement("exclusive", "mps")


@pytest.mark.parametrize(
    ("mode", "limiter", "options"),
    [
        ("exclusive", "plain", ("--gpus", "1", "--device", "GPU-1", "--limiter", "watchdog")),
        ("fairlead-safe", "plain", ("--device", "GPU-1", "--limiter", "watchdog")),
        ("fairlead-safe", "mps", ("--device", "GPU-1", "--limiter", "mps")),
    ],
)
def test_no_size_is_stated(mode: str, limiter: str, options: tuple[str, ...]) -> None:
    assert job_options(mode, limiter, "GPU-1") == options


def test_sizes_are_learned_in_the_solo_run_and_what_exceeds_a_share_is_refused(folder: str) -> None:
    lines: list[str] = []
    comparison = Comparison(played_plan(1, queries=60), folder, lines.append)
    assert sorted(comparison.profile()) == ["thread"]
    figures = comparison.run(Arrangement("fairlead-safe", "plain"))
    assert (figures["failures"], figures["outputs_equal"]) == ([], True)
    environ = {"FAIRLEAD_STATE": os.path.join(folder, "queue-2", "state")}
    solo, safe = JobHistory.open(StateDirectory.open(environ), environ).jobs()
    assert "learned" not in solo.assumed.source
    assert "learned from 1 run of" in safe.assumed.source
    result = exceeds(comparison, "watchdog", "driver")
    assert (result["how"], result["held"], result["exit_code"]) == ("refused", True, 3)
    assert (result["neighbours_failed"], result["neighbours_outputs_equal"]) == ([], True)
    assert lines[-1].startswith("offender: refused after ")


def test_an_engine_that_fails_alone_ends_the_comparison(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYED_FAILS", "thread")
    comparison = Comparison(played_plan(1), folder, lambda _: None)
    with pytest.raises(UserError, match="thread: the engine fails alone"):
        comparison.profile()


@needs_compiler
def test_a_pool_on_a_played_gpu_under_mps(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _play_gpu(Path(folder), monkeypatch)
    plan = replace(played_plan(3), gpu=GPU)
    comparison = Comparison(plan, folder, lambda _: None)
    comparison.solo = {kind.name: SoloRun(1.0, 1.0, 1.0, 1e6, "", 0.1, 64.0) for kind in plan.kinds}
    figures = comparison.run(Arrangement("fixed-4", "mps"))
    assert figures["failures"] == []
    assert figures["most_at_once"] == 3
    assert (figures["utilisation_percent"], figures["power_w"], figures["energy_j"]) == (42.0, 123.5, 0)
    # Two co-runners: (1 + 2 * 0.025) for the mean, times the tail 1 + 0.25 * 2 / 3 of the 99th percentile.
    assert figures["slowdown"]["predicted_worst"] == 1.23
    pipes = {events.mps for events in comparison.events().values()}
    assert pipes == {os.path.join(folder, "mps-1", "pipe")}
    assert processes_below(folder) == [], "the daemon has ended"


@needs_compiler
def test_the_sampler_ends_with_its_block(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _play_gpu(Path(folder), monkeypatch)
    with Sampler(GPU, os.path.join(folder, "samples")) as sampler:
        first = sampler.samples()[0]
    assert (first.memory, first.busy, first.watts) == (1000, 0.42, 123.456)
    assert sampler._process is not None
    assert sampler._process.returncode is not None


def test_mps_that_is_not_installed_is_an_error(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(os.path.exists(f"{place}/nvidia-cuda-mps-control") for place in ("/usr/bin", "/bin")):
        pytest.skip("this machine has MPS")
    monkeypatch.setenv("PATH", folder)
    comparison = Comparison(replace(played_plan(1), gpu=GPU), folder, lambda _: None)
    with pytest.raises(MissingPartError, match="nvidia-cuda-mps-control"), comparison.service():
        pass


def _play_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let child processes find a played driver and a played MPS daemon."""
    os.rename(built(folder), folder / "libnvidia-ml.so.1")
    write_control(folder / "bin")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
