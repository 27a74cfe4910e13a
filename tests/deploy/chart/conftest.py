"""The chart, rendered by the lab's helm, and agents under its policies on a real API server."""

from collections.abc import Iterator

import pytest

from fairlead.errors import LabError
from fairlead.lab.build.programs import ensure
from tests.deploy.chart.charts import Chart
from tests.deploy.chart.worlds import World, installed
from tests.labs import RealApi, skip_without_lab


@pytest.fixture(scope="session")
def chart() -> Chart:
    """Return the chart with the lab's helm."""
    try:
        return Chart(ensure(["helm"])["helm"])
    except LabError as error:
        skip_without_lab(str(error).splitlines()[0])


@pytest.fixture(scope="module", params=[False, True], ids=["as shipped", "generous role"])
def world(request: pytest.FixtureRequest, real_api: RealApi, chart: Chart) -> Iterator[World]:
    """Return a cluster with the chart's policies; with a generous role they are the only protection."""
    with installed(real_api, chart, {}, generous=request.param) as world:
        yield world
