"""What a job counts for before it is measured: stated, learned, predicted, or by default."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import SettingsError
from fairlead.history.commands import command_keys
from fairlead.history.outcome import JobOutcome
from fairlead.history.store import JobHistory
from fairlead.inventory import State
from fairlead.job import Assumed, LocalJob, LocalState, Requested
from fairlead.ledger.place import StateDirectory
from fairlead.local.assume import DEFAULT_MEMORY, assume
from fairlead.local.view import MachineView
from fairlead.need import NeedSource, effective_size, need_problems
from fairlead.prediction import Estimate
from fairlead.units import Bytes, Seconds
from tests.local.jobs import GIB, GPU, WHOLE, asked, ended, learn, machine, shared, used

NAME = "train.py"
KEYS = command_keys(["python", NAME, "--lr", "1"], "/work")
ALIKE = command_keys(["python", NAME, "--lr", "2"], "/work")
RUN = used((1.0, 3.0, 4.0, 4.0, 4.0), ram=(0.5, 2.0, 2.0, 2.0, 2.0))
FAILED = LocalState.FAILED
ANY = Requested()


@pytest.fixture
def history(tmp_path: Path) -> JobHistory:
    return JobHistory(StateDirectory.at(str(tmp_path / "state")), str(tmp_path / "history.db"))


def assumed(
    history: JobHistory,
    requested: Requested = ANY,
    view: MachineView | None = None,
    keys: tuple[str, ...] = KEYS,
    **more: Any,
) -> Assumed:
    return assume(requested, keys, history, view or machine(GPU), name=NAME, **more)


def after(
    history: JobHistory, *runs: tuple[JobOutcome, LocalJob], keys: tuple[str, ...] = KEYS
) -> JobHistory:
    for outcome, job in runs:
        assert learn(history, keys, NAME, outcome, job)
    return history


def test_an_unknown_command_gets_a_whole_gpu_and_says_so(history: JobHistory) -> None:
    first = assumed(history)
    assert (first.gpus, first.whole, first.need) == (1, True, None)
    assert (first.cpu, first.memory, first.seconds) == (1000, DEFAULT_MEMORY, None)
    assert not first.firm_cpu
    assert not first.firm_memory
    assert first.default_memory
    assert first.source == (
        "nothing is known of train.py: it gets a whole GPU; next time it gets what it used"
    )


def test_a_command_whose_use_no_driver_shows_gets_a_whole_gpu_again(history: JobHistory) -> None:
    unseen = replace(used(()), used_accelerator=True)
    again = assumed(after(history, (unseen, ended(shares=WHOLE))))
    assert (again.gpus, again.whole) == (1, True)
    assert again.source == "no memory of train.py was measured: it gets a whole GPU; --gpu-mem states a size"


def test_stated_cores_and_ram_are_not_called_learned(history: JobHistory) -> None:
    after(history, (RUN, ended(shares=WHOLE)))
    both = Requested(cpus=1.0, memory=Bytes(GIB))
    assert assumed(history, both, machine()).source == "stated"
    assert assumed(history, replace(both, gpus=0)).source == "stated: no accelerator"
    assert assumed(history, replace(both, memory=None), machine()).source == "learned from 1 run of train.py"


def test_the_second_run_needs_no_size(history: JobHistory) -> None:
    second = assumed(after(history, (RUN, ended(shares=WHOLE))))
    assert (second.gpus, second.whole, second.seconds) == (1, False, 10.0)
    assert second.need is not None
    assert list(need_problems(second.need)) == []
    assert second.need.sizes[0] == 4 * GIB
    assert 4 * GIB <= effective_size(second.need, 16 * GIB) <= 6 * GIB
    assert (second.need.firm, second.need.source) == (False, NeedSource.HISTORY)
    assert (second.cpu, second.source) == (1500, "learned from 1 run of train.py")
    assert 2 * GIB <= second.memory <= 3 * GIB


def test_more_runs_that_are_alike_come_closer_to_their_peak(history: JobHistory) -> None:
    sizes = []
    for number in range(1, 7):
        need = assumed(after(history, (RUN, ended(number, shares=WHOLE)))).need
        assert need is not None
        sizes.append(effective_size(need, 16 * GIB))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 4.6 * GIB < sizes[0]


def test_the_same_program_with_other_words_is_the_next_best(history: JobHistory) -> None:
    after(history, (RUN, ended(shares=WHOLE)))
    alike = assumed(history, keys=ALIKE)
    assert alike.source == "learned from 1 run of train.py"
    after(history, (used((8.0,) * 4), ended(2, shares=WHOLE)), keys=ALIKE)
    assert assumed(history, keys=ALIKE).need != assumed(history).need
    exact = assumed(history).need
    assert exact is not None
    assert exact.sizes[0] == 4 * GIB, "its own words have run: they count alone"


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (asked(6), {"gpus": 1, "whole": False, "sizes": (6.0,), "firm": True, "source": "stated"}),
        (asked(6, gpus=2), {"gpus": 2, "whole": False, "sizes": (6.0,)}),
        (asked(gpus=2), {"gpus": 2, "whole": True, "source": "stated: 2 whole accelerators"}),
        (asked(gpus=0), {"gpus": 0, "whole": False}),
        (asked(2, 3), {"sizes": (3.0,), "source": "stated, and learned from 1 run of train.py"}),
        (asked(8, 12), {"sizes": (8.0,), "firm": False}),
        (Requested(cpus=2.5), {"cpu": 2500, "firm_cpu": True, "firm_memory": False}),
        (Requested(memory=Bytes(GIB)), {"memory": GIB, "firm_memory": True, "firm_cpu": False}),
    ],
    ids=lambda value: "" if isinstance(value, dict) else None,
)
def test_what_is_stated_wins(history: JobHistory, requested: Requested, expected: dict[str, Any]) -> None:
    result = assumed(after(history, (RUN, ended(shares=WHOLE))), requested)
    shown = {name: getattr(result, name) for name in Assumed.__slots__}
    if result.need is not None:
        shown |= {"firm": result.need.firm, "sizes": tuple(size / GIB for size in result.need.sizes)}
    assert {name: shown[name] for name in expected} == expected


def test_a_request_below_a_limit_counts_by_what_runs_have_held_between_them(history: JobHistory) -> None:
    nothing = assumed(history, asked(2, 8)).need
    assert nothing is not None
    assert (nothing.sizes, nothing.firm) == ((2 * GIB,), False)
    after(history, (RUN, ended(requested=asked(2, 8), shares=shared(2))))
    between = assumed(history, asked(2, 8)).need
    assert between is not None
    assert between.sizes[0] == 4 * GIB
    assert between.peak == 6 * GIB


def test_without_a_gpu_a_job_counts_for_cores_and_ram(history: JobHistory) -> None:
    first = assumed(history, view=machine())
    assert (first.gpus, first.need, first.memory) == (0, None, DEFAULT_MEMORY)
    assert first.source.startswith("nothing is known of train.py")
    small = replace(machine(), memory=Bytes(GIB))
    assert assumed(history, view=small).memory == GIB // 8
    second = assumed(after(history, (used(ram=(3.0,) * 4), ended())), view=machine())
    assert second.source == "learned from 1 run of train.py"
    assert 3 * GIB <= second.memory < 4.5 * GIB


def test_a_gpu_that_cannot_be_used_is_named(history: JobHistory) -> None:
    broken = replace(GPU, state=State.DRIVER_BOUND, reason="driver mismatch")
    result = assumed(history, view=machine(broken))
    assert (result.gpus, result.source) == (
        0,
        "cores and RAM alone: gpu-0 cannot be used (driver mismatch)",
    )


def test_an_accelerator_that_is_no_gpu_must_be_asked_for(history: JobHistory) -> None:
    npu = replace(GPU, id="npu-0", kind="npu")
    assert assumed(history, view=machine(npu)).gpus == 0
    assert assumed(history, Requested(device="npu-0"), view=machine(npu)).gpus == 1


def test_a_command_that_used_no_accelerator_gets_none(history: JobHistory) -> None:
    idle = (used(used_accelerator=False), ended(shares=WHOLE))
    failed = (used(used_accelerator=False), ended(state=FAILED, shares=WHOLE))
    assert assumed(after(history, failed)).gpus == 1, "it failed before it could use one"
    assert assumed(after(history, idle)).gpus == 0
    assert assumed(history).source == "learned from 1 run of train.py: it used no accelerator"
    assert assumed(history, keys=ALIKE).gpus == 1, "once, with other words, is too little"
    after(history, (used(used_accelerator=False), ended(2, shares=WHOLE)))
    assert assumed(history, keys=ALIKE).gpus == 0
    assert assumed(history, asked(gpus=1)).gpus == 1
    without = assumed(after(history, (used(), ended(3, FAILED))))
    assert (without.gpus, without.whole) == (1, True)
    assert without.source == "learned that train.py failed without an accelerator: it gets a whole one"
    assert assumed(after(history, idle)).gpus == 0
    assert assumed(after(history, (RUN, ended(3, shares=WHOLE)))).gpus == 1


def test_a_command_that_fills_a_gpu_gets_a_whole_one(history: JobHistory) -> None:
    result = assumed(after(history, (used((15.0,) * 4), ended(shares=WHOLE))))
    assert (result.gpus, result.whole, result.need) == (1, True, None)
    assert result.source == "learned from 1 run of train.py: it fills an accelerator"


def test_a_command_that_used_two_gpus_gets_two(history: JobHistory) -> None:
    result = assumed(after(history, (RUN, ended(shares=WHOLE * 2))))
    assert (result.gpus, result.whole) == (2, False)


def test_a_machine_without_accelerators_goes_by_the_ram_of_runs_elsewhere(history: JobHistory) -> None:
    result = assumed(after(history, (RUN, ended(shares=WHOLE))), view=machine())
    assert (result.gpus, result.need, result.source) == (0, None, "learned from 1 run of train.py")


def test_a_run_that_failed_at_its_share_grows(history: JobHistory) -> None:
    after(history, (used((1.0, 3.95)), ended(state=FAILED, requested=asked(4), shares=shared(4))))
    again = assumed(history)
    assert again.need is not None
    assert again.need.peak == 5 * GIB
    assert again.source == "learned from a run of train.py that failed for lack of memory"
    stated = assumed(history, asked(4))
    assert stated.need is not None
    assert stated.need.peak == 4 * GIB, "what is stated wins"
    assert stated.source == "stated; learned that a run of train.py failed at 4.0 GiB"
    assert assumed(history, asked(6)).source == "stated"


def test_a_command_that_the_kernel_killed_gets_more_ram(history: JobHistory) -> None:
    after(history, (used(ram=(8.0,) * 2), ended(state=FAILED, exit_code=137)))
    assert assumed(history, view=machine()).memory == 10 * GIB
    after(history, (used(ram=(10.0,) * 4), ended(2, FAILED, exit_code=137)))
    assert assumed(history, view=machine()).memory > 15 * GIB


def estimate(memory: float | None, seconds: float = 0.01, **fields: Any) -> Estimate:
    size = None if memory is None else Bytes(round(memory * GIB))
    return Estimate("gpu-0", "net.onnx", memory=size, seconds=Seconds(seconds), **fields)


SERVE = ["python", "serve.py"]
SMALL, LARGE = (command_keys(SERVE, "/work", digest) for digest in ("small", "large"))
LARGE_MODEL = Requested(model="large.onnx")


def test_a_model_does_not_count_for_what_another_one_took_in_the_same_program(history: JobHistory) -> None:
    after(history, (RUN, ended(shares=WHOLE)), keys=SMALL)
    prediction = {"gpu-0": estimate(12.0)}
    large = assumed(history, LARGE_MODEL, keys=LARGE, prediction=prediction)
    assert (large.need and large.need.peak, large.source) == (12 * GIB, "predicted for large.onnx")
    here = assumed(history, LARGE_MODEL, machine(), LARGE, prediction={"cpu-0": estimate(3.0)})
    assert (here.memory, here.cpu, here.source) == (3 * GIB, 1000, "predicted for large.onnx")


def test_ram_that_a_model_took_on_the_processor_is_called_learned(history: JobHistory) -> None:
    after(history, (used((), ram=(1.0,) * 5), ended()), keys=LARGE)
    again = assumed(history, LARGE_MODEL, machine(), LARGE, prediction={"cpu-0": estimate(3.0)})
    assert again.source == "learned from 1 run of train.py"
    assert GIB <= again.memory <= 2 * GIB


def test_a_model_keeps_its_accelerator_after_a_run_that_did_not_use_it(history: JobHistory) -> None:
    idle = replace(used(()), used_accelerator=False)
    after(history, (idle, ended(shares=WHOLE)), keys=LARGE)
    kept = assumed(history, LARGE_MODEL, keys=LARGE, prediction={"gpu-0": estimate(1.0)})
    assert (kept.gpus, kept.source) == (1, "predicted for large.onnx")
    assert assumed(history, keys=LARGE[1:]).gpus == 0


def test_a_model_that_is_too_slow_says_how_slow(history: JobHistory) -> None:
    slow = {
        key: estimate(1.0, p90=Seconds(p90), meets_slo=False)
        for key, p90 in (("gpu-0", 0.09), ("cpu-0", 0.05))
    }
    with pytest.raises(SettingsError, match="too slow: nine of ten queries take up to 50ms on cpu-0"):
        assumed(history, LARGE_MODEL, prediction=slow)


def test_a_model_counts_by_its_prediction_until_it_has_run(history: JobHistory) -> None:
    requested = Requested(model="net.onnx")
    both = machine(GPU, replace(GPU, id="gpu-1"))
    prediction = {"gpu-0": estimate(1.0), "gpu-1": estimate(1.5, 0.02), "cpu-0": estimate(9.0)}
    first = assumed(history, requested, both, prediction=prediction)
    assert first.need is not None
    assert (first.need.peak, first.need.source) == (1.5 * GIB, NeedSource.PROFILE)
    assert (first.devices, first.source) == ({"gpu-0": 0.01, "gpu-1": 0.02}, "predicted for net.onnx")
    slow = {"gpu-0": estimate(1.0), "gpu-1": estimate(1.5, meets_slo=False)}
    assert set(assumed(history, requested, both, prediction=slow).devices) == {"gpu-0"}
    after(history, (RUN, ended(shares=shared(1.5))))
    second = assumed(history, requested, both, prediction=slow)
    assert (second.source, set(second.devices)) == ("learned from 1 run of train.py", {"gpu-0"})


def test_a_model_that_only_the_processor_runs_counts_for_ram(history: JobHistory) -> None:
    prediction = {"gpu-0": estimate(None, runs=False, reasons=("no kernel",)), "cpu-0": estimate(2.0)}
    result = assumed(history, Requested(model="net.onnx"), prediction=prediction)
    assert (result.gpus, result.memory, result.devices) == (0, 2 * GIB, {})


def test_a_model_that_nothing_here_can_run_is_refused(history: JobHistory) -> None:
    prediction = {"gpu-0": estimate(90.0, fits=False, reasons=("needs 90 GiB of 16 GiB",))}
    with pytest.raises(SettingsError, match=r"--model net.onnx: .*needs 90 GiB of 16 GiB"):
        assumed(history, Requested(model="net.onnx"), prediction=prediction)


def test_an_accelerator_of_unknown_speed_is_no_reason_against_a_model(history: JobHistory) -> None:
    why = "not known: no peak in the catalog; calibrate, or add a row"
    prediction = {"gpu-0": estimate(None, runs=None, reasons=(why,))}
    first = assumed(history, Requested(model="net.onnx"), prediction=prediction)
    assert (first.gpus, first.whole, first.devices) == (1, True, {})
    known = {**prediction, "gpu-1": estimate(1.0)}
    both = machine(GPU, replace(GPU, id="gpu-1"))
    assert set(assumed(history, Requested(model="net.onnx"), both, prediction=known).devices) == {"gpu-1"}
    with pytest.raises(SettingsError, match=re.escape(f"its latency on gpu-0 is {why}")):
        assumed(history, Requested(model="net.onnx", slo=Seconds(0.02)), prediction=prediction)


def test_the_latency_of_a_language_model_is_of_one_forward_pass(history: JobHistory) -> None:
    prediction = {"gpu-0": estimate(1.0, scope="one forward pass of a language model")}
    found = assumed(history, Requested(model="lm.onnx"), prediction=prediction)
    assert found.source == "predicted for lm.onnx; its latency is of one forward pass of a language model"
