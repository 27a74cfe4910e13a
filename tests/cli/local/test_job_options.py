"""Options that `run` and `submit` share."""

import argparse
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.cli.local.job_options import JobOptions, add_job_options, job_options_of, resolve_after
from fairlead.cli.local.machine_check import check_machine
from fairlead.errors import SettingsError
from fairlead.inventory import MigPartition
from fairlead.job import Assumed, Limiter, LocalState, Requested
from fairlead.local.eligible import matching
from fairlead.local.status import device_labels
from fairlead.units import Bytes, Seconds
from tests.accelerators import accelerator
from tests.local.runner.jobs import GIB, queued, view


def parse(*words: str) -> JobOptions:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_job_options(parser)
    return job_options_of(parser.parse_args(words))


def test_options_say_what_a_job_requests() -> None:
    words = (
        "--gpu-mem 4Gi:8Gi --gpus 2 --device t4 --cpus 0.5 --memory 512Mi --priority -3 --name a --timeout 2h"
    )
    options = parse(*words.split(), "--after", "1,two", "--after=3", "-q", "--", "train", "--", "--cpus", "9")
    assert options == JobOptions(
        ("train", "--", "--cpus", "9"),
        Requested(0.5, Bytes(GIB // 2), Bytes(4 * GIB), Bytes(8 * GIB), 2, "t4"),
        "a",
        -3,
        Seconds(7200.0),
        ("1", "two", "3"),
        quiet=True,
    )


def test_the_dashes_before_a_command_may_be_left_out() -> None:
    assert parse("python", "train.py", "--gpus", "1").argv == ("python", "train.py", "--gpus", "1")
    assert parse("--cpus=1", "echo", "-q").argv == ("echo", "-q")


@pytest.mark.parametrize(
    ("variable", "words", "limiter"),
    [
        ("", "--gpu-mem 4Gi", Limiter.WATCHDOG),
        ("mps", "--gpu-mem 4Gi", Limiter.MPS),
        ("mps", "--gpus 1", Limiter.MPS),
        ("mps", "--gpu-mem 4Gi --limiter none", Limiter.NONE),
        ("none", "--gpu-mem 4Gi --gpu-compute 25%", Limiter.MPS),
    ],
)
def test_the_limiter_is_stated_or_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, words: str, limiter: Limiter
) -> None:
    monkeypatch.setenv("FAIRLEAD_LIMITER", variable)
    assert parse(*words.split(), "train").requested.limiter is limiter


def test_a_model_has_a_latency_to_meet(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(b"")
    options = parse("--model", str(model), "--slo", "30ms", "--shape", "x=1x3", "serve")
    assert (options.model_path, options.shapes) == (str(model), ("x=1x3",))
    assert (options.requested.model, options.requested.slo) == ("net.onnx", 0.03)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--gpu-mem 4", "--gpu-mem 4: a size needs a unit; write 4Gi or 4Mi"),
        ("--gpu-mem 4Qi", "--gpu-mem 4Qi: not a size; write it like 4Gi"),
        ("--gpu-mem 4Gi:", "--gpu-mem 4Gi:: write a request and a limit, like 4Gi:8Gi"),
        ("--gpu-mem 8Gi:4Gi", "the request is larger than the limit; write 4Gi:8Gi"),
        ("--gpu-compute 25", "--gpu-compute 25: state the memory too; add --gpu-mem 4Gi"),
        ("--gpu-mem 4Gi --gpu-compute 0", "--gpu-compute 0: not a percentage; write a number from 1 to 100"),
        ("--gpu-mem 4Gi --gpu-compute 25 --limiter watchdog", "--gpu-compute 25: only MPS can limit it"),
        ("--limiter hami", "--limiter hami: no such limiter; write watchdog, mps, none"),
        ("--gpus 1 --limiter mps", "--limiter mps: whole GPUs need no limiter"),
        ("--gpu-mem 4Gi --gpus 0", "--gpu-mem 4Gi: --gpus 0 asks for no accelerator; leave one out"),
        ("--gpus 1.5", "--gpus 1.5: not a number of accelerators; write 0, 1, 2, ..."),
        ("--gpus 1 --model m", "--gpus 1: --model chooses one accelerator; state only one of them"),
        ("--model nosuch.onnx", "--model nosuch.onnx: no such file; name an ONNX or TFLite file"),
        ("--cpus nan", "--cpus nan: not a number of cores; write it like 2 or 0.5"),
        ("--cpus 0", "--cpus 0: not a number of cores; write it like 2 or 0.5"),
        ("--memory 0Gi", "--memory 0Gi: not an amount of memory; write it like 2Gi"),
        ("--slo 30ms", "--slo 30ms: a latency needs a model to predict; add --model FILE"),
        ("--shape x=1x3", "--shape x=1x3: only a model has shapes; add --model FILE"),
        ("--timeout 20", "--timeout 20: a time needs a unit; write 20ms, 20s or 20m"),
        ("--timeout soon", "--timeout soon: not a duration; write it like 2h"),
        ("--timeout 0s", "--timeout 0s: not longer than nothing; write it like 2h"),
        ("--priority high", "--priority high: not a priority; write a number from -1000 to 1000"),
        ("--priority 1001", "--priority 1001: not a priority"),
        ("--name a,b", "--name 'a,b': not a name; write one line of 1 to 64 characters without commas"),
    ],
)
def test_a_bad_value_is_one_line_with_what_to_write(words: str, error: str) -> None:
    with pytest.raises(SettingsError) as raised:
        parse(*words.split(), "true")
    assert error in str(raised.value)
    assert not raised.value.hint
    assert "\n" not in str(raised.value)


def test_jobs_to_wait_for_are_named_by_id_or_name() -> None:
    jobs = [queued(1, name="a"), queued(2, name="b"), queued(3, name="a"), queued(4, state=LocalState.DONE)]
    jobs += [replace(queued(5, name=name), uid=os.geteuid() + 1) for name in ("a", "theirs")]
    past = [queued(7, name="old", state=LocalState.DONE), queued(6, name="bad", state=LocalState.FAILED)]
    assert resolve_after(("a", "1", "b", "a", "4", "old", "5"), jobs, os.geteuid(), lambda: past) == (
        "3",
        "1",
        "2",
        "5",
    )
    for word, error in (("c", "no job of this id"), ("theirs", "none of yours"), ("bad", "job 6 is failed")):
        with pytest.raises(SettingsError, match=error):
            resolve_after((word,), jobs, os.geteuid(), lambda: past)


SMALL, LARGE = (
    accelerator("pci:0000:01:00.0", mebibytes=1024),
    accelerator("pci:0000:02:00.0", mebibytes=4096),
)


@pytest.mark.parametrize(
    ("requested", "error"),
    [
        (Requested(cpus=4.5), "--cpus 4.5: this machine has 4; write at most that"),
        (Requested(memory=Bytes(9 * GIB)), "--memory 9.0 GiB: this machine has 8.0 GiB; ask for less"),
        (Requested(gpus=3), "--gpus 3: this machine has 2 accelerators of that kind; write at most 2"),
        (
            Requested(device="h200"),
            f"--device h200: no such accelerator here; write one of: {SMALL.id}, {LARGE.id}",
        ),
        (
            Requested(gpu_memory=Bytes(GIB), gpu_limit=Bytes(5 * GIB)),
            f"--gpu-mem 5.0 GiB: larger than any accelerator here; the largest, {LARGE.id}, has 4.0 GiB",
        ),
    ],
)
def test_what_the_machine_can_never_give_is_refused_at_once(requested: Requested, error: str) -> None:
    gpus = requested.gpus or (1 if requested.gpu_memory else 0)
    with pytest.raises(SettingsError) as raised:
        check_machine(queued(requested=requested, assumed=Assumed(gpus=gpus)), view(SMALL, LARGE))
    assert str(raised.value) == error


PART = replace(
    accelerator("pci:0000:02:00.0-mig-1", mebibytes=1024),
    model="h200",
    mig=MigPartition("1g.1gb", 1, 0, "", ""),
)
SPLIT = view(LARGE, PART)
SPLIT = replace(
    SPLIT, devices=(replace(SPLIT.devices[0], fault="split into 1 MIG instance"), SPLIT.devices[1])
)


@pytest.mark.parametrize("name", [PART.id, "h200", "1g.1gb", "h200-mig-1g.1gb", "H200-MIG-1G.1GB"])
def test_a_mig_instance_is_named_by_its_profile_too(name: str) -> None:
    job = queued(requested=Requested(device=name), assumed=Assumed(gpus=1))
    assert matching(job, SPLIT.devices) == (PART.id,)


@pytest.mark.parametrize(
    ("requested", "error"),
    [
        (Requested(gpu_memory=Bytes(2 * GIB)), f"the largest, {PART.id}, has 1.0 GiB"),
        (Requested(gpus=2), "--gpus 2: this machine has 1 accelerator of that kind"),
    ],
)
def test_a_split_gpu_gives_nothing_itself(requested: Requested, error: str) -> None:
    with pytest.raises(SettingsError, match=error):
        check_machine(queued(requested=requested, assumed=Assumed(gpus=requested.gpus or 1)), SPLIT)


def test_accelerators_have_short_names() -> None:
    assert device_labels(SPLIT) == {LARGE.id: "test-device", PART.id: "1g.1gb"}
    assert device_labels(view(SMALL, LARGE)) == {SMALL.id: "test-device:0", LARGE.id: "test-device:1"}


def test_a_machine_without_accelerators_says_why() -> None:
    job = queued(requested=Requested(gpu_memory=Bytes(GIB)), assumed=Assumed(gpus=1))
    with pytest.raises(
        SettingsError, match=r"--gpu-mem 1.0 GiB: this machine has no accelerator \(NVML is mis"
    ):
        check_machine(job, view(problems=("NVML is missing",)))
    check_machine(queued(requested=Requested(cpus=4.0, gpus=0)), view())
