"""The policy in the coordinator: who gets inputs, what is said of it, and what is refused."""

from pathlib import Path

import pytest

from fairlead.store.refusal import RefusedError
from tests.store.jobs.crew import Bench, result


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return a coordinator of its own."""
    return Bench(tmp_path / "jobs.sqlite")


def work(bench: Bench, name: str, rates: dict[str, float], seconds: float) -> dict[str, int]:
    """Have a device and a pod do inputs at these rates for some seconds; return what each got."""
    done = dict.fromkeys(rates, 0)
    waiting: dict[str, list[object]] = {site: [] for site in rates}
    ready: dict[str, float] = dict.fromkeys(rates, 0.0)
    end = bench.now + seconds
    while bench.now < end and bench.coordinator.job(name)["state"] == "running":
        for site, rate in rates.items():
            ended = []
            while waiting[site] and ready[site] <= bench.now:
                ended.append(waiting[site].pop(0))
                ready[site] += 1 / rate
            done[site] += len(ended)
            held = [lease["input"] for lease in waiting[site]]  # type: ignore[index]
            stated = [
                {**result(lease), "interval": 1 / rate}  # type: ignore[arg-type]
                for lease in ended
            ]
            reply = bench.exchange(name, site, site=site, results=stated, held=held, want=not held)
            if reply["leases"]:
                ready[site] = bench.now + 1 / rate
                waiting[site] = list(reply["leases"])
        bench.now += 0.05
    return done


def test_auto_splits_where_that_helps_and_says_what_it_expects(bench: Bench) -> None:
    name = bench.job(400, policy="auto")
    done = work(bench, name, {"device": 2.0, "pod": 8.0}, 20.0)
    decision = bench.coordinator.job(name)["decision"]
    assert decision["chosen"]["compute"] == "split"
    assert decision["chosen"]["server_share"] == pytest.approx(0.8, abs=0.05)
    assert {each["compute"] for each in decision["alternatives"]} == {"device", "server", "split"}
    assert done["device"] > 20


def test_auto_leaves_a_device_out_that_adds_nothing(bench: Bench) -> None:
    name = bench.job(4000, policy="auto")
    done = work(bench, name, {"device": 0.2, "pod": 60.0}, 30.0)
    decision = bench.coordinator.job(name)["decision"]
    assert decision["chosen"]["compute"] == "server"
    assert decision["reason"].startswith("splitting cannot help")
    assert done["device"] == 1
    assert done["pod"] > 1000


def test_what_the_submitter_knows_counts_too(bench: Bench) -> None:
    offload = {"storage": "device", "result_bytes": 1e6, "device": {"free": 10e6}}
    name = bench.job(400, policy="auto", offload=offload)
    work(bench, name, {"device": 2.0, "pod": 8.0}, 3.0)
    decision = bench.coordinator.job(name)["decision"]
    assert decision["chosen"] is None
    assert any(
        "10 MB free" in each["reason"] or "MiB free" in each["reason"] for each in decision["impossible"]
    )
    assert bench.coordinator.job(name)["counts"]["done"] > 10  # a forecast ends no job


def test_other_policies_have_no_decision(bench: Bench) -> None:
    name = bench.job(10, policy="split")
    work(bench, name, {"device": 2.0, "pod": 8.0}, 1.0)
    assert bench.coordinator.job(name)["decision"] is None


@pytest.mark.parametrize(
    ("offload", "message"),
    [
        ([1], "offload: what is known of device, server and link, an object"),
        ({"device": {"rate": -1}}, "offload: rate: not a number of 0 or more"),
        ({"objective": "fame"}, "offload: 'fame' is not a valid"),
    ],
)
def test_wrong_facts_are_refused(bench: Bench, offload: object, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        bench.coordinator.make({"command": ["true"], "offload": offload})
