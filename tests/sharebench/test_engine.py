"""The engine: what it writes down, how it ends, and a real network in ONNX Runtime."""

import io
import json
from pathlib import Path

import pytest

from fairlead.sharebench import engine
from fairlead.sharebench.events import EngineEvents, EventLog, read_events
from fairlead.sharebench.workload import OUT, EngineCommand, ServingKind, engines_of, kinds_of
from fairlead.units import Bytes


class Counting:
    """A network that counts its queries."""

    def __init__(self) -> None:
        self.queries: list[int] = []
        self.held: list[tuple[int, str]] = []

    def load(self) -> None:
        """Need nothing."""

    def query(self, number: int) -> bytes:
        """Answer with the number."""
        self.queries.append(number)
        return bytes([number % 256])

    def hold(self, size: Bytes, by: str) -> None:
        """Note it."""
        self.held.append((size, by))


def served(queries: int, grow: int = 0) -> tuple[Counting, list[dict[str, object]]]:
    stream, network = io.StringIO(), Counting()
    engine.serve(network, EventLog(stream), queries, Bytes(grow), "driver")
    return network, [json.loads(line) for line in stream.getvalue().splitlines()]


def test_the_warm_up_does_not_count() -> None:
    network, lines = served(20)
    assert len(network.queries) == engine.WARM_UP + 20
    assert [line["event"] for line in lines] == ["ready", "done"]
    assert len(lines[1]["latencies"]) == 20  # type: ignore[arg-type]
    assert lines[1]["sha256"] == served(20)[1][1]["sha256"] != served(21)[1][1]["sha256"]


def test_it_grows_in_the_middle() -> None:
    network, lines = served(engine.GROWS_AFTER + 1, grow=64)
    assert [line["event"] for line in lines] == ["ready", "grows", "grew", "done"]
    assert network.held == [(64, "driver")]
    assert served(engine.GROWS_AFTER, grow=64)[0].held == [], "it ends before"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError("out of memory: the driver refused"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (type("OutOfMemoryError", (RuntimeError,), {})("tried to allocate"), True),
        (RuntimeError("illegal address"), False),
    ],
)
def test_refused_memory_is_known_by_its_name_or_its_text(error: Exception, expected: bool) -> None:
    assert engine.is_out_of_memory(error) is expected


def test_an_engine_that_is_killed_leaves_its_lines(tmp_path: Path) -> None:
    first = '{"event": "started", "at": 1.0, "network": "n", "job": "j1", "mps": "/p"}\n'
    (tmp_path / "7.jsonl").write_text(first + '{"event": "ready", "at": 2.0}\n{"event": "done", "at')
    assert read_events(str(tmp_path)) == {7: EngineEvents(7, "j1", "n", "/p", 1.0, 2.0)}


def test_a_real_network_answers_the_same_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv(OUT, str(tmp_path))
    monkeypatch.delenv("FAIRLEAD_JOB_ID", raising=False)
    command = EngineCommand(3, "cpu", ())
    words = command.words(ServingKind("thread", Bytes(1024), "onnxruntime"))
    digests = set()
    for _ in range(2):
        assert engine.main(words) == 0
        (events,) = read_events(str(tmp_path)).values()
        assert len(events.latencies) == 3
        assert events.throughput == pytest.approx(3 / sum(events.latencies))
        digests.add(events.digest)
    assert len(digests) == 1


def test_a_network_in_pytorch_answers_the_same_twice() -> None:
    pytest.importorskip("torch")
    from fairlead.sharebench.torch_network import TorchNetwork  # noqa: PLC0415

    networks = [TorchNetwork("thread", "cpu") for _ in range(2)]
    for network in networks:
        network.load()
        network.hold(Bytes(1024), "framework")
    assert networks[0].query(0) == networks[1].query(0) != networks[0].query(1)


def test_engines_are_equally_many_of_each_kind_in_an_order_by_the_seed() -> None:
    kinds = kinds_of("cuda")
    engines = engines_of(kinds, 16, 1)
    assert [sum(each.kind == kind for each in engines) for kind in kinds] == [4, 4, 4, 4]
    assert engines == engines_of(kinds, 16, 1) != engines_of(kinds, 16, 2)
    assert len({each.name for each in engines}) == 16


def test_a_further_runtime_serves_the_first_network_too() -> None:
    names = [kind.name for kind in kinds_of("cuda", ("torch", "onnxruntime"))]
    assert names == [*(kind.name for kind in kinds_of("cuda")), "mobilenet_v1-onnxruntime"]
    assert [kind.runtime for kind in kinds_of("cuda", ("onnxruntime",))] == ["onnxruntime"] * 4
