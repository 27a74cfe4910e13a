"""The arrangements of the two jobs: what runs, and what its gain can be."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fairlead.reproduce.augment import detector, documents, images
from fairlead.reproduce.augment.bare import BareWorker, run_bare, search_service
from fairlead.reproduce.augment.figures import JobRunFigures, RunBook
from fairlead.reproduce.augment.function import DOCUMENTS, IMAGES, MODEL, PACE, PROVIDER
from fairlead.reproduce.augment.published import LOAD

DEVICE, SERVER, ACCELERATOR = "device alone", "server, one core", "server, accelerator"
LOADER, LOADERS, MANY_LOADERS = "server, one loader", "server, two loaders", "server, four loaders"
AS_IT_IS: Final = "as fast as it is"


@dataclass(frozen=True, slots=True)
class AugmentCase:
    """One arrangement of a job."""

    job: str
    name: str
    how: str
    """What holds its workers to their speed."""
    workers: int
    run: Callable[[RunBook], JobRunFigures]
    """Runs it; later cases may need the rates of earlier ones."""
    beside: str
    """The arrangement whose rate its own is compared with."""
    bound: float | None = None
    """The largest gain over that which the device's own rate allows."""


@dataclass(frozen=True, slots=True)
class ImageSet:
    """The images of a run, for arrangements that are made elsewhere."""

    folder: Path
    """With the images and the detector; what an arrangement needs goes there as well."""
    names: Sequence[str]
    stored_bytes: int
    """How much a store must take."""
    with_sessions: bool
    """Whether the job is also run through stores."""

    @property
    def paths(self) -> list[str]:
        """The path of each image."""
        return [str(self.folder / IMAGES / name) for name in self.names]


FurtherCases = Callable[[ImageSet], AbstractContextManager[Sequence[AugmentCase]]]
"""Makes arrangements of the image job that need more than this machine as it is, for a block; LabError where
they cannot be made: that costs them alone."""


def image_cases(names: Sequence[str], edge_cpu: float, folder: Path) -> Iterator[AugmentCase]:
    """Yield the image job on a device that is held to a part of a core, on a core, and on a GPU."""
    paths = [str(folder / IMAGES / name) for name in names]
    environ = {MODEL: detector.write_model(str(folder))}
    few = max(4, math.ceil(len(paths) * edge_cpu / 2))
    slow = BareWorker(IMAGES, paths[:few], environ, edge_cpu)
    whole = BareWorker(IMAGES, paths, environ)
    yield _bare(DEVICE, f"{edge_cpu:g} CPU by quota", (slow,), folder)
    yield _bare(SERVER, AS_IT_IS, (whole,), folder)
    if provider := detector.accelerator():
        fast = replace(whole, environ=environ | {PROVIDER: provider})
        yield _bare(ACCELERATOR, provider, (fast,), folder)


def load_cases(names: Sequence[str], folder: Path) -> Iterator[AugmentCase]:
    """Yield the load-heavy job on the server, on a device of the published speed, and the missing control."""
    paths = [str(folder / DOCUMENTS / name) for name in names]
    yield _loaders(LOADER, paths, 1, folder)
    few = max(2, round(len(paths) / LOAD.ratio))

    def slow(book: RunBook) -> JobRunFigures:
        pace = LOAD.ratio / book.rate(DOCUMENTS, LOADER)
        return _run((BareWorker(DOCUMENTS, paths[:few], {PACE: f"{pace:.6f}"}),), folder)

    yield AugmentCase(DOCUMENTS, DEVICE, f"paced to 1 : {LOAD.ratio:.2f}", 1, slow, LOADER)
    yield _loaders(LOADERS, paths, 2, folder)
    yield _loaders(MANY_LOADERS, paths, 4, folder)


def write_inputs(
    folder: Path, count: int, batches: int, size: tuple[int, int]
) -> tuple[list[str], list[str]]:
    """Make images and batches of documents, and return their names."""
    width, height = size
    names = images.write_images(str(folder / IMAGES), count, width, height)
    return names, documents.write_batches(str(folder / DOCUMENTS), batches) if batches else []


def _bare(name: str, how: str, workers: tuple[BareWorker, ...], folder: Path) -> AugmentCase:
    return AugmentCase(
        workers[0].job, name, how, len(workers), lambda book: run_bare(workers, folder), SERVER
    )


def _loaders(name: str, paths: Sequence[str], count: int, folder: Path) -> AugmentCase:
    workers = tuple(BareWorker(DOCUMENTS, paths[first::count]) for first in range(count))
    return AugmentCase(DOCUMENTS, name, AS_IT_IS, count, lambda book: _run(workers, folder), LOADER)


def _run(workers: Sequence[BareWorker], folder: Path) -> JobRunFigures:
    """Run loaders against a search service of their own."""
    with new_service(folder) as found:
        return run_bare([replace(each, environ={**each.environ, **found}) for each in workers], folder)


def new_service(folder: Path) -> AbstractContextManager[Mapping[str, str]]:
    """Return a context with the environment of a new and empty search service."""
    return search_service(folder / f"service-{len(list(folder.glob('service-*')))}")
