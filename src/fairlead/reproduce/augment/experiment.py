"""Measure the arrangements in turn, and put what the paper reports beside them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from fairlead.errors import LabError, MissingPartError
from fairlead.reproduce.augment import detector, documents, index
from fairlead.reproduce.augment.cases import (
    AugmentCase,
    FurtherCases,
    ImageSet,
    image_cases,
    load_cases,
    write_inputs,
)
from fairlead.reproduce.augment.figures import RunBook
from fairlead.reproduce.augment.function import DOCUMENTS
from fairlead.reproduce.augment.images import HEIGHT, WIDTH, image_bytes
from fairlead.reproduce.augment.published import CASES
from fairlead.reproduce.augment.split_cases import image_splits, load_splits, split_runner

SPLITS, PODS = "splits", "pods"
_BATCH_BYTES = 200 << 10
_REST_BYTES = 256 << 20
"""What a run takes beside its images: the detector, the batches, indexes, the state of sessions."""
ACCELERATOR_MISSING = "the server's accelerator: neither ONNX Runtime nor PyTorch finds a GPU here"


@dataclass(frozen=True, slots=True)
class AugmentExperiment:
    """What is measured."""

    images: int = 300
    batches: int = 100
    rounds: int = 3
    width: int = WIDTH
    height: int = HEIGHT
    edge_cpu: float = 0.1
    """The device's part of one CPU, of the image job by itself."""
    splits: bool = True
    """Whether device and server also work together, as split jobs of a session."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of an image."""
        return self.width, self.height

    @property
    def image_bytes(self) -> int:
        """The size of all images."""
        return self.images * image_bytes(*self.size)

    @property
    def disk_bytes(self) -> int:
        """How much disk it takes at most: the images, what is on its way through a store, and all results."""
        return self.image_bytes * 5 // 4 + _REST_BYTES


def measure(
    experiment: AugmentExperiment,
    folder: Path,
    on_step: Callable[[str], None] = lambda line: None,
    further: FurtherCases | None = None,
) -> dict[str, Any]:
    """Return the contract of `fairlead reproduce augment -o json`."""
    missing = dict(_missing())
    on_step("makes the inputs")
    batches = 0 if DOCUMENTS in missing else experiment.batches
    names, listed = write_inputs(folder, experiment.images, batches, experiment.size)
    stored = experiment.image_bytes + len(listed) * _BATCH_BYTES
    images = ImageSet(folder, names, stored, experiment.splits and SPLITS not in missing)
    with ExitStack() as stack:
        cases = list(image_cases(names, experiment.edge_cpu, folder))
        if further is not None:
            cases += _further_cases(stack, further, images, missing)
        run_split = stack.enter_context(split_runner(folder, stored))
        cases += image_splits(names, folder, run_split) if images.with_sessions else ()
        cases += load_cases(listed, folder) if listed else ()
        cases += load_splits(listed, folder, run_split) if listed and images.with_sessions else ()
        book = run_cases(cases, experiment.rounds, on_step)
    made = {"count": experiment.images, "width": experiment.width, "height": experiment.height}
    return {
        "rounds": experiment.rounds,
        "images": {**made, "bytes": experiment.image_bytes, "network": detector.NETWORK},
        "documents": {"batches": batches, "per_batch": documents.PER_BATCH},
        "published": [
            asdict(each) | {"bound": each.bound, "is_possible": each.is_possible} for each in CASES
        ],
        "rows": [row_of(each, book) for each in cases if (each.job, each.name) in book.runs],
        "missing": [*missing.values(), *(f"{name}: {why}" for name, why in book.failures.items())],
    }


def _further_cases(
    stack: ExitStack, further: FurtherCases, images: ImageSet, missing: dict[str, str]
) -> Sequence[AugmentCase]:
    try:
        return stack.enter_context(further(images))
    except LabError as error:
        missing[PODS] = f"the image job in pods: {_with_hint(error)}"
        return ()


def run_cases(cases: Sequence[AugmentCase], rounds: int, on_step: Callable[[str], None]) -> RunBook:
    """Run every case once a round: in their order at first, then beginning with another one each time."""
    book = RunBook()
    for number in range(rounds):
        first = number % len(cases)
        for each in (*cases[first:], *cases[:first]):
            if each.name in book.failures:
                continue
            on_step(f"{each.job}: {each.name}, round {number + 1} of {rounds}")
            try:
                book.add(each.job, each.name, each.run(book))
            except LabError as error:  # what was measured without the lab is not lost
                book.failures[each.name] = _with_hint(error)
    return book


def row_of(case: AugmentCase, book: RunBook) -> dict[str, Any]:
    """Return the medians of a case."""
    runs = book.runs[case.job, case.name]
    cpu = [each.cpu for each in runs if each.cpu is not None]
    shares = [each.device_share for each in runs if each.device_share is not None]
    rate = book.rate(case.job, case.name)
    return {
        "job": case.job,
        "arrangement": case.name,
        "how": case.how,
        "workers": case.workers,
        "inputs": runs[0].inputs,
        "seconds": median(each.seconds for each in runs),
        "rate": rate,
        "by_server": rate / book.rate(case.job, case.beside),
        "bound": case.bound,
        "device_share": median(shares) if shares else None,
        "cpu_s": median(cpu) if cpu else None,
    }


def _with_hint(error: LabError) -> str:
    return f"{error}" + (f" ({error.hint})" if error.hint else "")


def _missing() -> Iterator[tuple[str, str]]:
    absent = [name for name in ("cheroot", "cryptography", "wsgidav") if find_spec(name) is None]
    if absent:
        yield SPLITS, f"device and server together: no {absent[0]}: pip install 'fairlead[augment]'"
    if not detector.accelerator():
        yield "accelerator", ACCELERATOR_MISSING
    try:
        index.module()
    except MissingPartError as error:
        yield DOCUMENTS, f"{error}: pip install 'fairlead[search]'"
