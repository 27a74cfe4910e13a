"""The arrangements of the image job in pods: the bare command, and a session of a store and a worker."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from fairlead.errors import EmulationError, LabError
from fairlead.lab.run.steps import StepPrinter
from fairlead.labaugment.objects import BARE
from fairlead.labaugment.site import AugmentSite, augment_site, start_bare, start_session
from fairlead.reproduce.augment import detector
from fairlead.reproduce.augment.bare import ONE_THREAD, BareWorker, run_bare
from fairlead.reproduce.augment.cases import AS_IT_IS, SERVER, AugmentCase, ImageSet
from fairlead.reproduce.augment.figures import JobRunFigures, RunBook
from fairlead.reproduce.augment.function import IMAGES, MODEL
from fairlead.reproduce.augment.overhead import POD, POD_AND_STORE, POD_FROM_DEVICE
from fairlead.reproduce.augment.session import SplitRun

_RESULTS: Final = "in-pod"


@contextmanager
def pod_cases(
    images: ImageSet, on_step: Callable[[str], None] = lambda line: None
) -> Iterator[Sequence[AugmentCase]]:
    """Yield the arrangements, in a lab that ends with the block."""
    on_step("lab: a real node")
    with ExitStack() as stack:
        site = stack.enter_context(augment_site(StepPrinter(io.StringIO())))
        cases = [_bare(site, images)]
        if images.with_sessions:
            cases += _through_store(site, images)
        yield cases


def _bare(site: AugmentSite, images: ImageSet) -> AugmentCase:
    model = detector.write_model(str(images.folder))
    results = images.folder / _RESULTS
    results.mkdir()
    start_bare(site, [str(images.folder / IMAGES), model], results)
    worker = BareWorker(IMAGES, images.paths, {MODEL: model}, enter=site.in_pod(BARE))
    return _case(site, POD, 1, lambda: run_bare((worker,), results))


def _through_store(site: AugmentSite, images: ImageSet) -> Iterator[AugmentCase]:
    environ = {MODEL: detector.write_model(str(images.folder))}
    place = images.folder / "pod-session"
    session = start_session(site, [environ[MODEL]], {**ONE_THREAD, **environ}, place, images.stored_bytes)
    for name, policy in ((POD_AND_STORE, "server"), (POD_FROM_DEVICE, "device")):
        job = SplitRun("detect", images.paths, policy, environ)
        yield _case(site, name, job.workers, partial(session.run, job))


def _case(site: AugmentSite, name: str, workers: int, run: Callable[[], JobRunFigures]) -> AugmentCase:
    def measured(book: RunBook) -> JobRunFigures:
        try:
            return run()
        except EmulationError as error:
            raise LabError(f"{error}; {site.story()}") from None

    return AugmentCase(IMAGES, name, AS_IT_IS, workers, measured, SERVER)
