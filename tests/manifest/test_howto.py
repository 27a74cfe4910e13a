"""Every example of the page on requesting accelerators is read as the page says."""

import re
from pathlib import Path

import pytest

from fairlead.manifest.amounts import MIB
from fairlead.manifest.files.collect import FoundObjects, collect
from fairlead.manifest.pod.controllers import pending_requests
from fairlead.manifest.pod.request import ReadContext
from fairlead.request import Demand, Gang, Request
from fairlead.units import Bytes
from fairlead.yamltext import parse_documents
from tests import catalogs

PAGE = Path(__file__).parents[2] / "docs/how-to/schedule-pods.md"
SIZES = {"t4": Bytes(16 << 30), "a100": Bytes(40 << 30)}
GPUS = 'device.driver == "fairlead.dev" && device.attributes["fairlead.dev"].kind == "gpu"'
EXPECTED = {
    "detector": Demand(1, Bytes(2048 * MIB)),
    "pair": Demand(2, Bytes(2048 * MIB), 250),
    "trainer": Demand(2, vendors=("NVIDIA",)),
    "chosen": Demand(1, models=("t4", "a100"), excluded=("k80",), vendors=("NVIDIA",), precision="fp16"),
    "classifier": Demand(1),
    "asks": Demand(1, vendors=("NVIDIA",)),
    "claimant": Demand(1, Bytes(2048 * MIB), selectors=(GPUS,)),
    "from-gpushare": Demand(1, Bytes(3072 * MIB), vendors=("NVIDIA",)),
    "from-kai": Demand(1),
    "ring-0": Demand(1, Bytes(8192 * MIB)),
    "star-0": Demand(1, Bytes(8192 * MIB)),
}


def examples() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def read(text: str) -> FoundObjects:
    return collect((f"document {at}", each) for at, each in enumerate(parse_documents(text.encode())))


@pytest.fixture(scope="module")
def requests_by_name() -> dict[str, Request]:
    requests_by_name_ = {}
    for text in examples():
        for _, _, request in pending_requests(ReadContext(catalogs.shipped(), read(text), SIZES)):
            requests_by_name_[request.name] = request
    return requests_by_name_


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_requests_what_the_page_says(name: str, requests_by_name: dict[str, Request]) -> None:
    assert requests_by_name[name].demand == EXPECTED[name]


def test_every_example_is_checked(requests_by_name: dict[str, Request]) -> None:
    assert requests_by_name.keys() == EXPECTED.keys() | {"from-hami"}


def test_examples_with_more_than_a_demand(requests_by_name: dict[str, Request]) -> None:
    hami = requests_by_name["from-hami"].demand
    assert (hami.count, hami.memory, hami.compute) == (1, 3000 * MIB, 300)
    assert {"a100", "v100"} <= set(hami.models)
    assert requests_by_name["from-kai"].estimates["t4"].memory == 8 << 30
    assert requests_by_name["classifier"].slo == 0.02
    assert requests_by_name["ring-0"].gang == Gang("default/ring", 2)
    assert requests_by_name["star-0"].gang == Gang("default/star", 2)


def test_all_examples_are_for_this_scheduler() -> None:
    pods = [each.body for text in examples() for each in read(text).all("Pod")]
    assert {pod.spec.scheduler_name for pod in pods} == {"fairlead"}
