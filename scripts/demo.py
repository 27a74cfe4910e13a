"""A mixed queue of real models on this machine: analysed, predicted, placed by predicted use, shown live.

Everything goes into a folder that is removed at the end; nothing of the user's own is read or written.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.units import format_bytes

if TYPE_CHECKING:
    from fairlead.history.learned import LearnedCommand

FAIRLEAD: Final = (sys.executable, "-m", "fairlead")
ENGINE: Final = (sys.executable, "-m", "fairlead.calibrate.infer")


class DemoJob(NamedTuple):
    """One inference engine: its model, its queries, and their rate; rate 0 answers as fast as it can."""

    name: str
    model: str
    queries: int
    rate: int = 0


QUEUE: Final = (
    DemoJob("door-camera", "mobilenet_v1", 70, 10),
    DemoJob("archive-1", "resnet18", 220),
    DemoJob("yard-camera", "mobilenet_v2", 80, 10),
    DemoJob("plate-reader", "ssd_mobilenet_v1", 56, 8),
    DemoJob("archive-2", "vit_tiny", 240),
    DemoJob("shelf-camera", "efficientnet_b0", 70, 10),
    DemoJob("gate-camera", "resnet18", 48, 6),
    DemoJob("archive-3", "ssd_mobilenet_v1", 160),
    DemoJob("drone", "vit_tiny", 40, 5),
    DemoJob("archive-4", "mobilenet_v1", 500),
    DemoJob("roof-camera", "efficientnet_b0", 60, 10),
    DemoJob("archive-5", "mobilenet_v2", 700),
)


def main() -> int:
    """Run the demo; the exit code is that of the queue."""
    _check_runtime()
    with _folder() as folder:
        _say("This machine")
        _fairlead("detect")
        _say("Calibrate: eleven small networks on one thread, a quarter of a minute (the rest is predicted)")
        _fairlead("calibrate", "--runs", "1", "--threads", "1", "-o", "json", quiet=True)
        models = _write_models(folder)
        _say("What each model will take here, before it has ever run")
        predicted = _predict(models)
        _say("Twelve engines: a camera needs the part of a core that its rate and its prediction say")
        names = dict(zip(_submit(models, predicted), (job.name for job in QUEUE), strict=True))
        with _page(models.values()) as address:
            print(f"  live in a browser of this machine: {address}")
            began, busy = time.monotonic(), _busy_seconds()
            _watch(names)
            wall = time.monotonic() - began
            listed = json.loads(_fairlead("ps", "-a", "-o", "json", quiet=True))["jobs"]
            jobs = [job for job in listed if job["id"] in names]
            _summarise(jobs, predicted)
            _say_busy(busy, wall)
            _again(models)
            _say_next()
            _keep_open(address)
    return 0 if all(job["state"] == "done" for job in jobs) else 1


OPEN: Final = bool(os.environ.get("OPEN"))
"""Whether the page is kept until SIGINT: `make demo OPEN=1`."""
NEXT: Final[Mapping[str, str]] = {
    "run --gpu-mem 4Gi -- python train.py": "wait for 4 GiB of a GPU, then run",
    "submit -- python train.py": "the same without waiting: ps, logs, cancel",
    "top": "devices, jobs and the queue, live",
    "dashboard": "the same as a page in a browser",
    "detect -v": "the evidence for every accelerator",
    "estimate MODEL.onnx --on all": "your model on every device of the catalog",
    "docs one-machine": "how the queue works without a daemon",
}


def _say_next() -> None:
    _say("Next")
    for command, what in NEXT.items():
        print(f"  .venv/bin/fairlead {command:<44} # {what}")


@contextmanager
def _page(models: Iterable[str]) -> Iterator[str]:
    """Serve the page of this machine and of models during the block; yield its address with its token."""
    words = [*FAIRLEAD, "dashboard", "--listen", "127.0.0.1:0"]
    words += [word for path in models for word in ("--model", path)]
    # Not of the terminal's group: Ctrl-C ends the demo, which ends the page.
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as page:
        try:
            assert page.stdout is not None
            line = page.stdout.readline()
            if not line:
                sys.exit("the page did not start: .venv/bin/fairlead dashboard says why")
            yield line.split()[-1]
        finally:
            page.terminate()


def _keep_open(address: str) -> None:
    """Print the address of the page last, and keep it as long as somebody may look at it."""
    _say("The page with all of this, on this machine alone")
    print(f"  {address}", flush=True)
    with suppress(KeyboardInterrupt, EOFError):
        if OPEN:
            print("  Ctrl-C ends it", flush=True)
            signal.pause()
        elif sys.stdin.isatty():
            input("  Enter ends it ")
        else:
            print("  It ends with this demo: make demo OPEN=1 keeps it until Ctrl-C")


def _check_runtime() -> None:
    try:
        import onnxruntime  # noqa: F401, PLC0415 - the demo runs real models
    except ImportError:
        sys.exit("make demo needs ONNX Runtime, which has no package for this Python; try PYTHON=python3.11")


@contextmanager
def _folder() -> Iterator[str]:
    """Give the demo a home and a ledger of its own, and remove them when no job is left."""
    folder = tempfile.mkdtemp(prefix="fairlead-demo-")
    home = os.path.join(folder, "home")
    os.environ.pop("XDG_DATA_HOME", None)
    os.environ.pop("XDG_STATE_HOME", None)
    os.environ |= {"FAIRLEAD_STATE": os.path.join(folder, "state"), "HOME": home, "OMP_NUM_THREADS": "1"}
    os.mkdir(home)
    try:
        yield folder
    finally:
        _fairlead("cancel", "--all", quiet=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _write_models(folder: str) -> dict[str, str]:
    names = sorted({job.model for job in QUEUE})
    subprocess.run(
        [sys.executable, "-m", "fairlead.zoo", folder, *names], check=True, stdout=subprocess.DEVNULL
    )
    return {name: os.path.join(folder, f"{name}.onnx") for name in names}


def _predict(models: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the estimate of each model on the processor, and print them."""
    predicted = {}
    print(f"  {'MODEL':<18}{'WORK':>12}{'LATENCY':>11}{'MEMORY':>10}  CONFIDENCE")
    for name, path in models.items():
        profile = json.loads(_fairlead("analyze", path, "-o", "json", quiet=True))
        document = json.loads(_fairlead("estimate", path, "-o", "json", quiet=True))
        estimate = min(document["estimates"], key=lambda each: each["seconds"] or float("inf"))
        predicted[name] = estimate
        print(
            f"  {name:<18}{profile['macs'] / 1e9:>7.2f} GMAC{1000 * estimate['seconds']:>8.1f} ms"
            f"{format_bytes(estimate['memory_bytes']):>10}  {estimate['confidence']}, {estimate['basis']}"
        )
    return predicted


def _submit(models: Mapping[str, str], predicted: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Submit all engines as a file of commands, and return their ids."""
    lines = []
    for job in QUEUE:
        cores = _cores(job, predicted)
        options = f"--name {job.name} --cpus {cores:g} --model {shlex.quote(models[job.model])}"
        lines.append(f"{options} -- {shlex.join(_engine(job, models))}")
        pace = f"{job.rate} queries a second" if job.rate else "as fast as it can"
        print(f"  {job.name:<14}{job.model:<18}{pace:<22}{cores:g} of a core")
    return _fairlead("submit", "--from", "-", quiet=True, text="\n".join(lines)).split()


def _engine(job: DemoJob, models: Mapping[str, str]) -> list[str]:
    return [*ENGINE, models[job.model], "--queries", str(job.queries), "--rate", str(job.rate)]


def _cores(job: DemoJob, predicted: Mapping[str, Mapping[str, Any]]) -> float:
    """Return the cores that an engine keeps busy, by its prediction, with a third to spare."""
    return round(min(1.0, 1.33 * job.rate * predicted[job.model]["seconds"]), 2) if job.rate else 1.0


def _watch(names: Mapping[str, str]) -> None:
    """Show the queue until it is empty: live in a terminal, otherwise a line for each start and end."""
    from fairlead.history.store import JobHistory  # noqa: PLC0415 - the demo says first what it lacks
    from fairlead.ledger import JobLedger, StateDirectory  # noqa: PLC0415

    place = StateDirectory.open(os.environ)
    ledger, history = JobLedger(place), JobHistory.open(place, os.environ)

    def read() -> dict[str, str]:
        """Return the state of each job, also of those that have ended."""
        return {job.id: job.state.value for job in (*ledger.own_jobs(), *history.jobs()) if job.id in names}

    began, states = time.monotonic(), dict.fromkeys(names, "queued")
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        subprocess.run([*FAIRLEAD, "top", "--until-idle", "--delay", "1s"], check=False)
        states = read()  # the key q ends the live view before the queue is empty
    while "queued" in states.values() or "running" in states.values():
        now = read()
        counts = [sum(state == word for state in now.values()) for word in ("running", "queued")]
        for job_id in (job_id for job_id in names if now[job_id] != states[job_id]):
            beside = f"{counts[0]} running, {counts[1]} waiting"
            print(
                f"  {time.monotonic() - began:5.1f} s  {names[job_id]:<14}{now[job_id]:<10}{beside}",
                flush=True,
            )
        states = now
        time.sleep(0.3)


class Outcome(NamedTuple):
    """What one engine took, beside what was predicted."""

    alone: float
    """Seconds of the whole engine on a core of its own."""
    latency_error: float
    memory_error: float


def _summarise(jobs: Sequence[Mapping[str, Any]], predicted: Mapping[str, Mapping[str, Any]]) -> None:
    """Print each job beside its predictions, and what running them together saved."""
    _say("What was predicted, and what happened")
    print("  The latency of a query; MEASURED leaves out the time in which others had the")
    print("  core, SHARED has it. MEMORY: predicted, and the peak of the engines.")
    print(
        f"  {'JOB':<13}{'MODEL':<17}{'PREDICTED':>9}{'MEASURED':>10}{'ERROR':>7}{'SHARED':>10}{'MEMORY':>12}"
    )
    held = _memory_held()
    pairs = zip(jobs, QUEUE, strict=True)
    rows = [_show_job(job, engine, predicted[engine.model], held) for job, engine in pairs]
    outcomes = [row for row in rows if row is not None]
    _say("Summary")
    took = max(_moment(job["ended_at"]) for job in jobs) - min(_moment(job["submitted_at"]) for job in jobs)
    cores = len(os.sched_getaffinity(0))
    single, parallel = (_makespan([each.alone for each in outcomes], count) for count in (1, cores))
    print(f"  By what their queries took, these {len(outcomes)} engines need {single:.0f} s one at a time,")
    print(f"  and {parallel:.0f} s with one on each of {cores} cores.")
    faster = f"{single / took:.1f} and {parallel / took:.1f} times as fast"
    print(f"  Sharing the machine they took {took:.0f} s: {faster}.")
    for what, errors in (
        ("latency", [each.latency_error for each in outcomes]),
        ("memory", [each.memory_error for each in outcomes]),
    ):
        off = sorted(100 * abs(error) for error in errors) or [0.0]
        print(
            f"  The predicted {what} was off by {median(off):.0f} % in the median, {off[-1]:.0f} % at most."
        )


def _show_job(
    job: Mapping[str, Any], engine: DemoJob, predicted: Mapping[str, Any], held: Mapping[str, int]
) -> Outcome | None:
    """Print a job beside its predictions, and return them; None: it failed."""
    answer, seconds, size = _answer(job["id"]), predicted["seconds"], predicted["memory_bytes"]
    start = f"  {engine.name:<13}{engine.model:<17}"
    if answer is None:
        print(f"{start}{job['state']}: {job['reason']}")
        return None
    measured, memory = answer["p50_undisturbed_seconds"], held[engine.model]
    alone = STARTUP + max(engine.queries * measured, engine.queries / engine.rate if engine.rate else 0.0)
    outcome = Outcome(alone, measured / seconds - 1, memory / size - 1)
    print(
        f"{start}{1000 * seconds:>6.1f} ms{1000 * measured:>7.1f} ms{100 * outcome.latency_error:>+6.0f}%"
        f"{1000 * answer['p50_seconds']:>7.1f} ms{f'{size >> 20}/{memory >> 20}Mi':>12}"
    )
    return outcome


STARTUP: Final = 0.5
"""Seconds in which an engine starts Python and loads its model."""
MUCH: Final = 0.15
"""The part of the cores that the commands of the demo itself, and a desktop, use at most."""


def _say_busy(busy_before: float, wall: float) -> None:
    """Print how much of the cores other programs had while the queue ran, if it was much."""
    ours = sum(run.seconds * run.cpu_mean / 1000 for known in _learned_models() for run in known.runs)
    total = wall * (os.cpu_count() or 1)
    others = (min(total, _busy_seconds() - busy_before) - ours) / total
    if others > MUCH:
        print(
            f"  Other programs had {100 * others:.0f} % of the cores meanwhile: repeat it on an idle machine."
        )


def _busy_seconds() -> float:
    """Return the CPU seconds of all programs since the boot."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, *rest = map(int, stat.readline().split()[1:8])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def _memory_held() -> dict[str, int]:
    """Return the peak of RAM of each model's engines."""
    return {
        known.name.removesuffix(".onnx"): max(run.memory for run in known.runs) for known in _learned_models()
    }


def _learned_models() -> "list[LearnedCommand]":
    """Return what the history has learned of each model."""
    from fairlead.history.store import JobHistory  # noqa: PLC0415 - as above
    from fairlead.ledger import StateDirectory  # noqa: PLC0415

    history = JobHistory.open(StateDirectory.open(os.environ), os.environ)
    return [known for known in history.all_learned() if known.key.startswith("model-")]


def _moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _makespan(lengths: Sequence[float], count: int) -> float:
    """Return when the last of some jobs ends if each waits for one of so many places, in their order."""
    ends = [0.0] * count
    for length in lengths:
        first = ends.index(min(ends))
        ends[first] += length
    return max(ends)


def _answer(job_id: str) -> dict[str, float] | None:
    """Return what an engine printed; None: it failed."""
    lines = _fairlead("logs", job_id, quiet=True, check=False).splitlines()
    try:
        answer: dict[str, float] = json.loads(lines[-1])
    except (ValueError, IndexError):
        return None
    return answer


def _again(models: Mapping[str, str]) -> None:
    """Submit one engine again: it gets what it used the first time."""
    _say("The second time no size is stated or predicted: what the first run used is known")
    job = QUEUE[0]
    subprocess.run([*FAIRLEAD, "run", "--name", job.name, "--", *_engine(job, models)], check=False)


def _fairlead(*arguments: str, quiet: bool = False, check: bool = True, text: str | None = None) -> str:
    """Run one command with this input; its output is shown, or with `quiet` returned."""
    out = subprocess.PIPE if quiet else None
    done = subprocess.run([*FAIRLEAD, *arguments], check=False, stdout=out, text=True, input=text)
    if check and done.returncode:
        sys.exit(f"fairlead {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout or ""


def _say(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{text}{plain}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
