"""The arrangements of device and server together, as split jobs of a session of this machine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from fairlead.reproduce.augment import detector
from fairlead.reproduce.augment.cases import AS_IT_IS, LOADER, SERVER, AugmentCase, new_service
from fairlead.reproduce.augment.figures import JobRunFigures, RunBook
from fairlead.reproduce.augment.function import DOCUMENTS, IMAGES, MODEL, PACE
from fairlead.reproduce.augment.published import CPU, GPU, LOAD
from fairlead.reproduce.augment.session import ReproducedSession, SplitRun, local_session

SERVER_PACE_S: Final = 0.05
"""Seconds of an image on a server of a fixed rate: more than the work takes, so that load changes little."""
SLICE: Final = 3.7
"""A tenth of the paper's server by the device: what a lent slice is."""
THROUGH, FROM_DEVICE = "server, through the store", "device, through the store"
FIXED, BOTH = "server, fixed rate", "device and server"
SECOND_STREAM: Final = "device as a second loader"


Environment = Callable[[RunBook], Mapping[str, str]]
"""What a worker is told, by the rates that are known."""
RunSplit = Callable[[SplitRun], JobRunFigures]
"""Runs a split job."""


@contextmanager
def split_runner(folder: Path, size: int) -> Iterator[RunSplit]:
    """Yield what runs split jobs in a session, which is made for the first and ends with the block."""
    with ExitStack() as stack:
        found: list[ReproducedSession] = []

        def run(job: SplitRun) -> JobRunFigures:
            if not found:
                found.append(stack.enter_context(local_session(folder / "session", size)))
            return found[0].run(job)

        yield run


def image_splits(names: Sequence[str], folder: Path, run_split: RunSplit) -> Iterator[AugmentCase]:
    """Yield the image job through the store on one side, and on both at the published ratios."""
    paths = [str(folder / IMAGES / name) for name in names]
    model = {MODEL: detector.write_model(str(folder))}
    server = {**model, **pace(SERVER_PACE_S)}

    def case(name: str, how: str, job: SplitRun, beside: str, bound: float | None = None) -> AugmentCase:
        return AugmentCase(IMAGES, name, how, job.workers, lambda book: run_split(job), beside, bound)

    def both(ratio: float, policy: str) -> AugmentCase:
        job = SplitRun("detect", paths, policy, {**model, **pace(ratio * SERVER_PACE_S)}, server)
        return case(f"{BOTH}, 1 : {ratio:g}", f"fixed rates, {policy}", job, FIXED, 1 / ratio)

    yield case(THROUGH, AS_IT_IS, SplitRun("detect", paths, "server", {}, model), SERVER)
    yield case(FROM_DEVICE, AS_IT_IS, SplitRun("detect", paths, "device", model), SERVER)
    yield case(FIXED, f"{1 / SERVER_PACE_S:g}/s", SplitRun("detect", paths, "server", {}, server), FIXED)
    yield both(SLICE, "split")
    yield both(CPU.ratio, "split")
    yield both(GPU.ratio, "auto")


def load_splits(names: Sequence[str], folder: Path, run_split: RunSplit) -> Iterator[AugmentCase]:
    """Yield the load-heavy job through the store: on the server, with a slow device, with a second stream."""
    paths = [str(folder / DOCUMENTS / name) for name in names]

    def runner(policy: str, environ: Environment) -> Callable[[RunBook], JobRunFigures]:
        def run(book: RunBook) -> JobRunFigures:
            with new_service(folder) as found:
                device = {**found, **environ(book)}
                return run_split(SplitRun("load", paths, policy, device, found))

        return run

    def slow(book: RunBook) -> Mapping[str, str]:
        return pace(LOAD.ratio / book.rate(DOCUMENTS, THROUGH))

    def free(book: RunBook) -> Mapping[str, str]:
        return {}

    yield AugmentCase(DOCUMENTS, THROUGH, AS_IT_IS, 1, runner("server", free), LOADER)
    how = f"device paced to 1 : {LOAD.ratio:.2f}"
    yield AugmentCase(DOCUMENTS, BOTH, how, 2, runner("split", slow), THROUGH, LOAD.bound)
    yield AugmentCase(DOCUMENTS, SECOND_STREAM, AS_IT_IS, 2, runner("split", free), THROUGH)


def pace(seconds: float) -> dict[str, str]:
    """Return the environment of a worker that takes at least so long for an input."""
    return {PACE: f"{seconds:.6f}"}
