"""JobSpec: how a job's command is run. It stays in the user's private folder: it has the environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.formats import JSON, Codec, VersionedFormat

OUTPUT_SUFFIX: Final = ".log"
"""Of the file that keeps the output of a submitted job."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """How the command of a job is run."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    """The file that keeps the command's output; empty: the output is the foreground process's own.

    Of a new job it may be a folder with a slash at its end: the ledger adds the name, `<id>.log`.
    """
    model_path: str = ""
    """The file of the model that the job runs; empty: not stated."""
    shapes: tuple[str, ...] = ()
    """Shapes of the model's inputs as the user states them: `data=1x3x224x224`."""
    umask: int = 0o022


def _encode(spec: JobSpec) -> dict[str, Any]:
    return {
        "argv": list(spec.argv),
        "cwd": spec.cwd,
        "environment": dict(spec.environment),
        "output": spec.output,
        "model_path": spec.model_path,
        "shapes": list(spec.shapes),
        "umask": spec.umask,
    }


def _decode(body: Mapping[str, Any]) -> JobSpec:
    return JobSpec(
        _texts(body["argv"]),
        _text(body["cwd"]),
        {_text(name): _text(value) for name, value in body["environment"].items()},
        _text(body["output"]),
        _text(body["model_path"]),
        _texts(body["shapes"]),
        _umask(body["umask"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is not a list")
    return tuple(_text(value) for value in values)


def _umask(value: object) -> int:
    if type(value) is not int or not 0 <= value <= 0o777:
        raise ValueError(f"{value!r} is not a umask")
    return value


SPECS: Final[VersionedFormat[JobSpec]] = VersionedFormat("job-spec", JSON, {1: Codec(_encode, _decode)})
"""The private file beside a job's record."""
