"""Workers by themselves: each does its own list of inputs, without the framework; under a quota if wanted."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fairlead.errors import EmulationError
from fairlead.reproduce.augment.figures import JobRunFigures
from fairlead.reproduce.augment.function import SERVICE
from fairlead.reproduce.emulation.quota import cpu_quota
from fairlead.reproduce.thesis.rig import background

_WORK: Final = (sys.executable, "-m", "fairlead.reproduce.augment.work")
_SERVICE: Final = (sys.executable, "-m", "fairlead.reproduce.augment.service")
_NOTHING: Final[Mapping[str, str]] = {}
ONE_THREAD: Final[Mapping[str, str]] = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""The environment of every worker."""


@dataclass(frozen=True, slots=True)
class BareWorker:
    """A worker and what it does."""

    job: str
    paths: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    cpu: float | None = None
    """A part of one CPU; None: as much as it gets."""
    enter: tuple[str, ...] = ()
    """What stands before its command line, and runs it elsewhere, like in a pod."""


def run_bare(workers: Sequence[BareWorker], folder: Path) -> JobRunFigures:
    """Run workers side by side, from the moment at which all are ready."""
    with ExitStack() as stack:
        children = []
        for number, worker in enumerate(workers):
            place = folder / f"bare-{number}"
            place.mkdir(exist_ok=True)
            (place / "paths").write_text("".join(f"{path}\n" for path in worker.paths))
            argv = [*_WORK, worker.job, str(place / "paths"), str(place)]
            quota = None if worker.cpu is None else stack.enter_context(cpu_quota(worker.cpu))
            words = argv if quota is None else quota.command(argv)
            words = [*worker.enter, *_with_environment(words, worker.environ)]
            child = stack.enter_context(background(words, place, "log", pipes=True))
            if quota is not None:
                quota.on_start(child.pid)
            children.append((child, place / "log"))
        for child, log in children:
            _line(child, log)
        for child, _ in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        answers = [_line(child, log) for child, log in children]
    return JobRunFigures(
        sum(each["inputs"] for each in answers),
        max(each["seconds"] for each in answers),
        sum(each["cpu"] for each in answers),
    )


@contextmanager
def search_service(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the environment with which loaders find a search service that ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with background([*_SERVICE, str(folder / "index")], folder, "service.log", pipes=True) as child:
        assert child.stdout is not None
        address = child.stdout.readline().strip()
        if not address:
            raise EmulationError(f"the search service did not start: {_last(folder / 'service.log')}")
        yield {SERVICE: address}


def _with_environment(argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in {**ONE_THREAD, **environ}.items()), *argv]


def _line(child: Any, log: Path) -> dict[str, Any]:
    assert child.stdout is not None
    text = child.stdout.readline()
    if not text:
        raise EmulationError(f"a worker ended: {_last(log)}")
    document: dict[str, Any] = json.loads(text)
    return document


def _last(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"
