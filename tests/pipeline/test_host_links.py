"""Links between hosts that are slow, cut, early or refused: the run goes on, or says why it does not."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.pipeline.hosts.messages import CONTROL, MessageQueue
from fairlead.pipeline.link.dial import Dialer
from fairlead.pipeline.link.gateway import LinkGateway
from fairlead.pipeline.link.joins import LinkJoin
from fairlead.pipeline.link.rpc import OpenedStream, StreamRefusedError
from fairlead.pipeline.link.wire import Hello, decode, encode
from fairlead.pipeline.ring.pair import ring_pair
from tests.pipeline.hosts import LIMIT, host, run_on_hosts
from tests.pipeline.pipelines import sequences
from tests.pipeline.relay import relay

CONTRACT = {"policy": "block", "depth": 2, "max_age": None, "every": 1}
PIPELINE = """
pipeline: line
hosts: {{a: {{address: "127.0.0.1:{port}"}}}}
stages:
  - {{name: camera, source: numbers, options: {{count: {count}, rate: {rate}, shape: [32, 32, 3]}}}}
  - {{name: number, run: "$S:number", on: a}}
  - {{name: log, sink: jsonl, options: {{path: out.jsonl}}, on: a}}
edges:
  - {{from: camera, to: number, policy: {policy}, depth: 4}}
  - {{from: number, to: log}}
"""


def wait_for(condition: Callable[[], Any]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def gateway() -> Iterator[LinkGateway]:
    """Yield the links of a run here."""
    links = LinkGateway("r", None)
    try:
        yield links
    finally:
        links.close()


def open_link(links: LinkGateway, session: str, port: int) -> Any:
    """Open a link to a host, and return the end of its ring that a worker would have."""
    worker, ours = ring_pair(2)
    address = f"127.0.0.1:{port}"
    links.open(LinkJoin(session, True, "camera", "camera->number", 0, 2, CONTRACT, dial=address), ours)
    return worker


def test_a_slow_link_loses_nothing(tmp_path: Path) -> None:
    phases: list[str] = []
    with host(tmp_path) as only, relay(only.port) as between:

        def slow_down(status: dict[str, Any]) -> None:
            written = status["stages"][-1]["out"]
            if not phases and written > 5:
                phases.append("slow")
                between.most, between.pause = 1024, 0.05
            elif phases == ["slow"] and written > 12:
                phases.append("fast")
                between.most, between.pause = 1 << 16, 0.0

        text = PIPELINE.format(port=between.port, count=120, rate=100, policy="block")
        status = run_on_hosts(text, tmp_path, slow_down)
    assert phases == ["slow", "fast"]
    assert sequences(tmp_path) == list(range(120))
    assert [stage["restarts"] for stage in status["stages"]] == [0, 0, 0]


def test_a_live_edge_goes_on_once_a_cut_link_is_back(tmp_path: Path) -> None:
    phases: list[str] = []
    with host(tmp_path) as only, relay(only.port) as between:

        def cut(status: dict[str, Any]) -> None:
            dropped = sum(status["edges"][0]["dropped"].values())
            if not phases and status["stages"][-1]["out"] > 5:
                phases.append("away")
                between.is_away = True
                between.cut()
            elif phases == ["away"] and dropped > 20:
                phases.append("back")
                between.is_away = False

        text = PIPELINE.format(port=between.port, count=600, rate=200, policy="drop_oldest")
        status = run_on_hosts(text, tmp_path, cut)
    assert phases == ["away", "back"]
    edge = status["edges"][0]
    assert edge["sent"] == 600 == edge["taken"] + sum(edge["dropped"].values())
    written = sequences(tmp_path)
    assert written == sorted(set(written))
    assert written[-1] == 599, "the newest frames have come"


def test_a_link_that_is_faster_than_the_coordinator_waits_for_its_run(tmp_path: Path) -> None:
    with host(tmp_path) as only, relay(only.port) as between, gateway() as links:
        worker = open_link(links, "1", between.port)
        wait_for(lambda: between.accepted)
        queue = MessageQueue({"run": "r", "attempt": 1})
        dialer = Dialer(queue.session, f"127.0.0.1:{only.port}", None, CONTROL)
        join = {"session": "1", "sends": False, "worker": "number", "edge": "e", "index": 0, "slots": 2}
        queue.send({"do": "link", "join": join | {"contract": CONTRACT}})
        worker.settimeout(LIMIT)
        assert worker.recv(1) == b"", "the host has no such worker, and closes the link"
        assert links.take_faults() == []
        worker.close()
        dialer.stop()
        dialer.join()
        queue.close()


def test_a_link_that_is_refused_is_a_fault_of_its_worker_unless_it_was_replaced(tmp_path: Path) -> None:
    faults: list[tuple[str, str]] = []
    with host(tmp_path, patience=0.0) as only, gateway() as links:

        def has_fault() -> bool:
            faults.extend(links.take_faults())
            return bool(faults)

        workers = [open_link(links, session, only.port) for session in ("1", "2")]
        wait_for(has_fault)
        ((worker, line),) = faults
        assert worker == "camera"
        assert line.startswith(f"edge camera->number: the link with 127.0.0.1:{only.port} was refused: ")
        assert "this host has no run r" in line
        for end in workers:
            end.close()


def test_a_later_attempt_of_the_coordinator_replaces_its_run(tmp_path: Path) -> None:
    with host(tmp_path) as only:

        def greet(attempt: int) -> Hello:
            body = {"protocol": 1, "run": "r", "attempt": attempt, "received": 0, "released": 0}
            answered = threading.Event()

            def messages() -> Iterator[bytes]:
                yield encode(Hello(body))
                answered.wait(LIMIT)  # a stream that ends at once may get no answer

            stream = OpenedStream(f"127.0.0.1:{only.port}", None, CONTROL, messages())
            try:
                answer = decode(next(iter(stream)))
            finally:
                answered.set()
                stream.cancel()
            assert isinstance(answer, Hello)
            return answer

        assert greet(1).body["attempt"] == 1
        assert greet(2).body["attempt"] == 2
        with pytest.raises(StreamRefusedError, match="has begun it again"):
            greet(1)
        assert only.counters()["runs"] == 1
