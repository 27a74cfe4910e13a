"""The options of `fairlead augment submit`, and the job that they ask for."""

import argparse
import os
import shlex
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.augment.session import add_session
from fairlead.cli.shell import options as shared
from fairlead.errors import JobError, SettingsError

if TYPE_CHECKING:
    from fairlead.executors.checkpoint import CheckpointHook
    from fairlead.submission.request import JobRequest, TakenFile

_SITES: Final = ("device", "pod")
_POLICIES: Final = ("auto", "device", "server", "split")
_LISTS: Final = ("resize", "mean", "std", "providers")
"""Options of models that are lists."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    _add_inputs(command)
    _add_work(command)
    command.add_argument(
        "--out", metavar="DIR", help="fetch the results into this folder (default: they stay in the store)"
    )
    command.add_argument(
        "--on",
        metavar="SITES",
        default=",".join(_SITES),
        help="who may work on it: device, pod or both (default: %(default)s)",
    )
    command.add_argument(
        "--policy",
        choices=_POLICIES,
        default="auto",
        help="auto: split where that helps; device, server: one side alone; split: both in any case "
        "(default: %(default)s)",
    )
    add_explain(command)
    add_slots(command)
    command.add_argument("--name", metavar="TEXT", default="", help="what the job is called in lists")
    add_session(command)
    shared.add_output(command)


def add_explain(command: argparse.ArgumentParser) -> None:
    """Add the option that explains who works."""
    command.add_argument(
        "--explain",
        action="store_true",
        help="print the alternatives (who computes, where results are kept) with their expected times, and "
        "again when the choice changes",
    )


def add_slots(command: argparse.ArgumentParser) -> None:
    """Add how many inputs this machine works on at once."""
    command.add_argument(
        "--slots",
        metavar="N",
        type=int,
        default=1,
        help="inputs at once on this machine (default: %(default)s)",
    )


def _add_inputs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--inputs",
        metavar="DIR|LIST|-",
        required=True,
        help="all files below a folder; or those that a file, or the standard input, names line by line",
    )
    command.add_argument(
        "--base", metavar="DIR", help="of a list: the folder that its files are in (default: this one)"
    )
    command.add_argument(
        "--follow",
        action="store_true",
        help="go on with files as they appear in the folder; SIGINT ends that, and the rest is finished",
    )


def _add_work(command: argparse.ArgumentParser) -> None:
    work = command.add_mutually_exclusive_group(required=True)
    work.add_argument(
        "--command",
        dest="program",
        metavar="TEXT",
        help="a program for each input, quoted as in a shell: {input} is the input's path, {output} that of "
        "the result (default: its standard output), {with} the folder of the files taken along",
    )
    work.add_argument(
        "--function",
        metavar="MODULE:NAME",
        help="a Python function, module:name or file.py:name, which is loaded once and called with each path",
    )
    work.add_argument("--model", metavar="FILE", help="an ONNX model, which runs on whatever each side has")
    command.add_argument(
        "--with",
        dest="files",
        metavar="FILE",
        action="append",
        default=[],
        help="take a file along: every worker has it before it begins; may be repeated",
    )
    command.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of a model: resize=224,224, scale=1/255, mean=..., layout=nhwc, providers=cuda, output=json",
    )
    _add_checkpoint(command)


def _add_checkpoint(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--checkpoint-save",
        metavar="TEXT",
        help="a command that lets a running program, {pid}, save itself into {checkpoint}",
    )
    command.add_argument(
        "--checkpoint-resume",
        metavar="TEXT",
        help="the command that goes on from {checkpoint}, here or elsewhere",
    )
    command.add_argument(
        "--checkpoint-every",
        metavar="TIME",
        default="30s",
        help="how often a program saves itself (default: %(default)s)",
    )


def requested(options: argparse.Namespace) -> "tuple[JobRequest, list[tuple[TakenFile, str]]]":
    """Return the job that the options ask for, and the files that it takes along."""
    from fairlead.submission.along import read_files
    from fairlead.submission.request import JobRequest, check_command

    paths = list(options.files)
    command: tuple[str, ...]
    if options.model is not None:
        kind, command = "model", (os.path.basename(options.model),)
        paths.append(options.model)
    elif options.function is not None:
        kind, command = "function", (_function(options.function, paths),)
    else:
        kind, command = "command", _words("--command", options.program)
    files = read_files(dict.fromkeys(paths))
    request = JobRequest(
        kind,
        command,
        options.name or _default_name(options),
        _sites(options.on),
        options.policy,
        options.follow,
        _model_options(options),
        tuple(taken for taken, _ in files),
        _checkpoint(options),
    )
    check_command(request)
    if options.slots < 1:
        raise SettingsError(f"--slots {options.slots}: that is nothing", "work on at least one input at once")
    return request, files


def _function(text: str, paths: list[str]) -> str:
    """Return the name of a function as workers find it; a file is taken along."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise JobError(f"--function {text}: it names no function", "write module:name or file.py:name")
    if not place.endswith(".py"):
        return text
    paths.append(place)
    return f"{os.path.basename(place)}:{name}"


def _default_name(options: argparse.Namespace) -> str:
    text = options.model or options.function or options.program
    return str(text)[:100] if str(text)[:100].isprintable() else ""


def _sites(text: str) -> tuple[str, ...]:
    sites = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    unknown = [each for each in sites if each not in _SITES]
    if unknown or not sites:
        raise SettingsError(
            f"--on {text}: {', '.join(unknown) or 'nothing'} is no site", "device, pod, or both"
        )
    return sites


def _words(option: str, text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SettingsError(f"{option} {text[:200]}: {error}", "quote it as in a shell") from None
    if not words:
        raise SettingsError(f"{option}: it is empty", "name a program")
    return words


def _model_options(options: argparse.Namespace) -> dict[str, Any]:
    if options.option and options.model is None:
        raise SettingsError("--option is of a model", "add --model, or leave it out")
    found: dict[str, Any] = {}
    for text in options.option:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise SettingsError(f"--option {text}: an option has a name and a value", "write resize=224,224")
        found[name] = [_value(each) for each in value.split(",")] if name in _LISTS else _value(value)
    return found


def _value(text: str) -> "int | float | str":
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _checkpoint(options: argparse.Namespace) -> "CheckpointHook | None":
    from fairlead.executors.checkpoint import CheckpointHook
    from fairlead.units import parse_duration

    save, resume = options.checkpoint_save, options.checkpoint_resume
    if save is None and resume is None:
        return None
    if save is None or resume is None:
        raise SettingsError(
            "a checkpoint needs both commands", "add --checkpoint-save and --checkpoint-resume"
        )
    try:
        every = float(parse_duration(options.checkpoint_every))
    except ValueError as error:
        raise SettingsError(f"--checkpoint-every {options.checkpoint_every}: {error}") from None
    document = {
        "save": _words("--checkpoint-save", save),
        "resume": _words("--checkpoint-resume", resume),
        "every": every,
    }
    return CheckpointHook.of(document)
