"""The API server of the chaos tests: no other test uses it."""

import io
import os
from collections.abc import Iterator

import pytest

from fairlead.errors import LabError
from fairlead.lab.build.prerequisites import gather
from fairlead.lab.run import home
from fairlead.lab.run.down import down
from fairlead.lab.run.state import LabProfile
from fairlead.lab.run.steps import StepPrinter
from fairlead.lab.run.up import LabSpec, up
from tests.cluster.chaos.api import ChaosApi
from tests.labs import skip_without_lab


@pytest.fixture(scope="module")
def chaos_api() -> Iterator[ChaosApi]:
    """Start a private etcd and API server."""
    quiet = StepPrinter(io.StringIO())
    try:
        kit = gather(LabProfile.API, quiet, kwok=False)
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])
    where, name = home.default(os.environ), f"chaos-{os.getpid()}"
    lab = up(where, LabSpec(LabProfile.API, name, owner=os.getpid()), quiet)
    try:
        yield ChaosApi(lab, kit.programs)
    finally:
        down(where, name)
