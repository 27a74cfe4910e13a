"""Options of `run` and `submit`: what a job requests, and the command; each bad value gets one line."""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeVar

from fairlead.errors import SettingsError
from fairlead.job import MOST_PRIORITY, Limiter, LocalJob, LocalState, Requested
from fairlead.units import Bytes, Seconds, parse_bytes, parse_duration

_LONGEST_NAME = 64
_MOST_GPUS = 1024
_LIMITER = "FAIRLEAD_LIMITER"
"""The variable that names the limiter of jobs for which no option does."""

NOTHING_REQUESTED = Requested()

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What the options of `run` or `submit` say."""

    argv: tuple[str, ...]
    """The command; never empty."""
    requested: Requested = NOTHING_REQUESTED
    name: str = ""
    """Empty: not stated; `default_name` has one."""
    priority: int = 0
    timeout: Seconds | None = None
    after: tuple[str, ...] = ()
    """Ids or names, as typed; `resolve_after` turns them into ids."""
    model_path: str = ""
    """The absolute path of --model."""
    shapes: tuple[str, ...] = ()
    quiet: bool = False
    origin: str = ""
    """The file and the line that they come from; empty: the command line."""


def add_job_options(command: argparse.ArgumentParser, quiet: str = "print nothing but errors") -> None:
    """Add the options that say what a job requests, and the command to run."""
    _add_accelerators(command)
    _add_request(command)
    _add_queueing(command)
    command.add_argument("-q", "--quiet", action="store_true", help=quiet)
    command.add_argument(
        "argv", metavar="COMMAND", nargs=argparse.REMAINDER, help="the command and its arguments, after --"
    )


def _add_accelerators(command: argparse.ArgumentParser) -> None:
    size = command.add_mutually_exclusive_group()
    size.add_argument(
        "--gpu-mem",
        metavar="SIZE[:LIMIT]",
        help="memory of each accelerator that the command uses: 4Gi; with a limit that it may reach: 4Gi:8Gi",
    )
    size.add_argument(
        "--model", metavar="FILE", help="an ONNX or TFLite file: its memory and latency are predicted"
    )
    command.add_argument(
        "--gpus",
        metavar="N",
        help="accelerators: whole ones; with --gpu-mem, that memory of each (default: 1)",
    )
    command.add_argument(
        "--device", metavar="ID", default="", help="the id, catalog id or vendor of the accelerator"
    )
    command.add_argument(
        "--gpu-compute",
        metavar="PERCENT",
        help="with --gpu-mem: the part of each GPU's multiprocessors that the command may use; takes MPS",
    )
    command.add_argument(
        "--limiter",
        metavar="NAME",
        help="what holds the command to its size: watchdog (it is ended when it holds more), mps (CUDA "
        f"refuses more) or none (default: ${_LIMITER}, else watchdog)",
    )


def _add_request(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cpus", metavar="N", help="cores to reserve: 2, or 0.5 (default: by measured use)")
    command.add_argument(
        "--memory", metavar="SIZE", help="RAM to reserve: 2Gi (default: learned, then by measured use)"
    )
    command.add_argument(
        "--slo", metavar="TIME", help="with --model: the latency that one query must meet: 30ms"
    )
    command.add_argument(
        "--shape",
        metavar="NAME=DIMS",
        action="append",
        default=[],
        help="with --model: bind an open dimension: input=1x3x224x224; may be repeated",
    )


def _add_queueing(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--priority",
        metavar="N",
        default="0",
        help=f"-{MOST_PRIORITY} to {MOST_PRIORITY}; higher starts first",
    )
    command.add_argument("--name", metavar="TEXT", help="a name for the job (default: the command's)")
    command.add_argument("--timeout", metavar="TIME", help="end the command after this time: 90s, 30m, 2h")
    command.add_argument(
        "--after",
        metavar="JOB[,JOB...]",
        action="append",
        default=[],
        help="start only when these jobs (ids or names) are done; may be repeated",
    )


def job_options_of(options: argparse.Namespace) -> JobOptions:
    """Return the checked options; a SettingsError names the option, the value and what to write."""
    argv = tuple(options.argv[1:] if options.argv[:1] == ["--"] else options.argv)
    if not argv or not argv[0]:
        raise SettingsError("no command: write it after --, for example: -- python train.py")
    return JobOptions(
        argv,
        requested_of(options),
        _optional(options.name, parse_name),
        _priority(options.priority),
        _optional_value(options.timeout, lambda text: _duration("--timeout", text, "2h")),
        tuple(word.strip() for text in options.after for word in text.split(",") if word.strip()),
        _model(options.model) if options.model is not None else "",
        tuple(options.shape),
        options.quiet,
    )


def requested_of(options: argparse.Namespace) -> Requested:
    """Return what the options request; a SettingsError names the option, the value and what to write."""
    if options.model is not None and options.gpus is not None:
        raise SettingsError(f"--gpus {options.gpus}: --model chooses one accelerator; state only one of them")
    if options.slo is not None and options.model is None:
        raise SettingsError(f"--slo {options.slo}: a latency needs a model to predict; add --model FILE")
    if options.shape and options.model is None:
        raise SettingsError(f"--shape {options.shape[0]}: only a model has shapes; add --model FILE")
    gpus = _optional_value(options.gpus, _gpus)
    if gpus == 0 and options.gpu_mem is not None:
        raise SettingsError(f"--gpu-mem {options.gpu_mem}: --gpus 0 asks for no accelerator; leave one out")
    request, limit = (None, None) if options.gpu_mem is None else _gpu_memory(options.gpu_mem)
    compute = _optional_value(options.gpu_compute, _percent)
    if compute is not None and request is None:
        raise SettingsError(f"--gpu-compute {options.gpu_compute}: state the memory too; add --gpu-mem 4Gi")
    return Requested(
        _optional_value(options.cpus, _cpus),
        _optional_value(options.memory, lambda text: parse_size("--memory", text, "2Gi")),
        request,
        limit,
        gpus,
        options.device.strip(),
        os.path.basename(options.model) if options.model is not None else "",
        _optional_value(options.slo, lambda text: _duration("--slo", text, "30ms")),
        compute,
        _limiter(options, compute),
    )


def default_name(argv: Sequence[str]) -> str:
    """Return the name of a job without one: the script that an interpreter runs, else the program."""
    from fairlead.history.commands import command_name

    return command_name(argv).replace(",", "")[:_LONGEST_NAME] or "job"


def resolve_after(
    words: Sequence[str], jobs: Sequence[LocalJob], uid: int, ended: Callable[[], Sequence[LocalJob]]
) -> tuple[str, ...]:
    """Return the ids of the jobs to wait for; `ended` reads the history, newest first, only if needed.

    A name is that of a job of this user: another's of the same name would fail this job when it fails.
    A job that is done is left out. A job that failed, or does not exist, is a SettingsError.
    """
    ids = []
    for word in words:
        named = [job for job in jobs if job.name == word and job.uid == uid]
        job = next((job for job in jobs if job.id == word), named[-1] if named else None)
        if job is None:
            job = next((job for job in ended() if word in (job.id, job.name)), None)
        if job is None:
            raise SettingsError(
                f"--after {word}: no job of this id, and none of yours of this name; "
                "`fairlead ps -a` lists the jobs"
            )
        if job.state.ended and job.state is not LocalState.DONE:
            raise SettingsError(f"--after {word}: job {job.id} is {job.state}, so this one would never start")
        if not job.state.ended:
            ids.append(job.id)
    return tuple(dict.fromkeys(ids))


def _optional(text: str | None, parse: Callable[[str], str]) -> str:
    return "" if text is None else parse(text)


def _optional_value(text: str | None, parse: Callable[[str], Value]) -> Value | None:
    return None if text is None else parse(text)


def parse_size(option: str, text: str, example: str) -> Bytes:
    """Return a size that an option states; a SettingsError names the option, the value and what to write."""
    bare = text.strip()
    if bare.replace(".", "", 1).isdigit():
        raise SettingsError(f"{option} {text}: a size needs a unit; write {bare}Gi or {bare}Mi")
    try:
        size = parse_bytes(text)
    except ValueError:
        raise SettingsError(f"{option} {text}: not a size; write it like {example}") from None
    if not 0 < size < 2**62:
        raise SettingsError(f"{option} {text}: not an amount of memory; write it like {example}")
    return size


def _gpu_memory(text: str) -> tuple[Bytes, Bytes | None]:
    request, colon, limit = text.partition(":")
    if not colon:
        return parse_size("--gpu-mem", request, "4Gi"), None
    if not request.strip() or not limit.strip():
        raise SettingsError(f"--gpu-mem {text}: write a request and a limit, like 4Gi:8Gi")
    least, most = parse_size("--gpu-mem", request, "4Gi"), parse_size("--gpu-mem", limit, "8Gi")
    if least > most:
        raise SettingsError(
            f"--gpu-mem {text}: the request is larger than the limit; write {limit}:{request}"
        )
    return least, most


def _percent(text: str) -> int:
    bare = text.strip().removesuffix("%")
    if not bare.isdecimal() or not 0 < int(bare) <= 100:
        raise SettingsError(f"--gpu-compute {text}: not a percentage; write a number from 1 to 100")
    return int(bare)


def _limiter(options: argparse.Namespace, compute: int | None) -> Limiter:
    """Return the stated limiter, else that of the environment; a part of the compute takes MPS."""
    text = options.limiter if options.limiter is not None else os.environ.get(_LIMITER, "")
    source = "--limiter" if options.limiter is not None else _LIMITER
    if text and text not in set(Limiter):
        raise SettingsError(f"{source} {text}: no such limiter; write {', '.join(Limiter)}")
    limiter = Limiter(text or Limiter.WATCHDOG)
    if compute is not None and options.limiter is not None and limiter is not Limiter.MPS:
        raise SettingsError(
            f"--gpu-compute {compute}: only MPS can limit it; write --limiter mps, or leave it out"
        )
    if limiter is Limiter.MPS and options.limiter is not None and options.gpus and options.gpu_mem is None:
        raise SettingsError("--limiter mps: whole GPUs need no limiter; state --gpu-mem, or leave it out")
    return Limiter.MPS if compute is not None else limiter


def _gpus(text: str) -> int:
    if not text.strip().isdecimal() or int(text) > _MOST_GPUS:
        raise SettingsError(f"--gpus {text}: not a number of accelerators; write 0, 1, 2, ...")
    return int(text)


def _cpus(text: str) -> float:
    try:
        cpus = float(text)
    except ValueError:
        cpus = 0.0
    if not isfinite(cpus) or cpus < 0.001:
        raise SettingsError(f"--cpus {text}: not a number of cores; write it like 2 or 0.5")
    return cpus


def _duration(option: str, text: str, example: str) -> Seconds:
    bare = text.strip()
    if bare.replace(".", "", 1).isdigit():
        raise SettingsError(f"{option} {text}: a time needs a unit; write {bare}ms, {bare}s or {bare}m")
    try:
        seconds = parse_duration(text)
    except ValueError:
        raise SettingsError(f"{option} {text}: not a duration; write it like {example}") from None
    if seconds <= 0:
        raise SettingsError(f"{option} {text}: not longer than nothing; write it like {example}")
    return seconds


def _priority(text: str) -> int:
    try:
        priority = int(text)
    except ValueError:
        priority = MOST_PRIORITY + 1
    if abs(priority) > MOST_PRIORITY:
        raise SettingsError(
            f"--priority {text}: not a priority; write a number from -{MOST_PRIORITY} to {MOST_PRIORITY}"
        )
    return priority


def parse_name(text: str) -> str:
    """Return the name of a job; a SettingsError says what a name is."""
    name = text.strip()
    if not name or len(name) > _LONGEST_NAME or "," in name or not name.isprintable():
        raise SettingsError(
            f"--name {text!r}: not a name; write one line of 1 to {_LONGEST_NAME} characters without commas"
        )
    return name


def _model(path: str) -> str:
    if not os.path.isfile(path):
        raise SettingsError(f"--model {path}: no such file; name an ONNX or TFLite file")
    if not os.access(path, os.R_OK):
        raise SettingsError(f"--model {path}: the file cannot be read; check its permissions")
    return os.path.abspath(path)
