"""Every example of the page on asking for accelerators reads as the page says."""

import re
from pathlib import Path

import pytest

from fairlead.manifest.amounts import MIB
from fairlead.manifest.files.collect import FoundObjects, collect
from fairlead.manifest.pod.controllers import pending_requests
from fairlead.manifest.pod.request import ReadContext
from fairlead.request import Demand, Gang, Request
from fairlead.units import Bytes
from fairlead.yamltext import documents
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
    "claimant": Demand(1, Bytes(2048 * MIB), selectors=(GPUS,)),
    "from-gpushare": Demand(1, Bytes(3072 * MIB), vendors=("NVIDIA",)),
    "from-kai": Demand(1),
    "ring-0": Demand(1, Bytes(8192 * MIB)),
    "star-0": Demand(1, Bytes(8192 * MIB)),
}


def examples() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def read(text: str) -> FoundObjects:
    return collect((f"document {at}", each) for at, each in enumerate(documents(text.encode())))


@pytest.fixture(scope="module")
def asked() -> dict[str, Request]:
    found = {}
    for text in examples():
        for _, _, request in pending_requests(ReadContext(catalogs.shipped(), read(text), SIZES)):
            found[request.name] = request
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_asks_for_what_it_says(name: str, asked: dict[str, Request]) -> None:
    assert asked[name].demand == EXPECTED[name]


def test_every_example_is_looked_at(asked: dict[str, Request]) -> None:
    assert asked.keys() == EXPECTED.keys() | {"from-hami"}


def test_examples_that_say_more(asked: dict[str, Request]) -> None:
    hami = asked["from-hami"].demand
    assert (hami.count, hami.memory, hami.compute) == (1, 3000 * MIB, 300)
    assert {"a100", "v100"} <= set(hami.models)
    assert asked["from-kai"].estimates["t4"].memory == 8 << 30
    assert asked["classifier"].slo == 0.02
    assert asked["ring-0"].gang == Gang("default/ring", 2)
    assert asked["star-0"].gang == Gang("default/star", 2)


def test_all_examples_are_for_this_scheduler() -> None:
    pods = [each.body for text in examples() for each in read(text).all("Pod")]
    assert {pod.spec.scheduler_name for pod in pods} == {"fairlead"}
