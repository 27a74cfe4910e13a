"""One measurement: a job is made, fed and done; what came of it beside the ideal makespan."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import FairleadError, SplitBenchError
from fairlead.reproduce.emulation.relay import Relay
from fairlead.splitbench.inputs import batches, check_results, write_inputs
from fairlead.splitbench.plan import FACTORS, SplitPlan, whole_makespan
from fairlead.splitbench.processes import RateWorker, ServedStore, served_store, start_worker
from fairlead.splitting.bound import RateChange, ideal_makespan
from fairlead.splitting.peers import RULES

_LOOK: Final = 0.01
_SLOW_LOOK: Final = 0.1
_PATIENCE: Final = {True: 10.0, False: 50.0}
"""Times the ideal makespan, and half a minute, after which a job is given up: of our rule, and of others."""
_SPARE: Final = 30.0
_ROOM: Final = 5000
"""Inputs are named while the coordinator takes so many more."""


@dataclass(slots=True)
class _Watch:
    """A job while it runs."""

    began: float
    struck: float | None = None
    """When the event struck, in seconds from the start."""
    peak: int = 0
    copies: int = 0


def measure(plan: SplitPlan, folder: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Run a plan in an empty folder, and return the document of what came of it."""
    with served_store(folder) as store, ExitStack() as stack:
        job = _make(plan, store)
        say(f"{plan.inputs} inputs of {plan.input_size} bytes")
        write_inputs(plan, f"{store.root}/jobs/{job}/in")
        feed = _feed(plan, store, job)
        stack.callback(feed.close)
        url = _device_url(plan, store, stack)
        workers = _start(plan, store, job, url, stack)
        used = store.processor_seconds
        watch = _Watch(time.time())
        for worker in workers:
            worker.say("go")
        feed.start()
        last = _watch(plan, store, job, workers, watch, feed)
        watch.peak = store.peak_memory
        used = store.processor_seconds - used
        return {**_document(plan, store, job, watch, last), "coordinator_processor_s": round(used, 3)}


def _make(plan: SplitPlan, store: ServedStore) -> str:
    rates = zip(plan.names, plan.rates, strict=True)
    shares = {name: rate * (plan.believed if name != "server" else 1.0) for name, rate in rates}
    spec = {
        "name": "bench",
        "command": ["fixed-rate", "{input}"],
        "policy": "split",
        "keep_inputs": True,
        "rule": plan.rule,
        "shares": shares,
    }
    return str(store.ask("POST", "", spec)["job"])


class _Feed(threading.Thread):
    """Names the inputs that do not fit in at once."""

    def __init__(self, store: ServedStore, job: str, left: Iterator[list[dict[str, Any]]]) -> None:
        super().__init__(name="feed", daemon=True)
        self._store = ServedStore(store.folder, store.token, store.url, store.child)
        self._job = job
        self._left = left
        self._ending = False
        self.room = 1 << 60
        self.error: FairleadError | None = None

    def add(self) -> bool:
        """Name the next inputs; False: there are no more."""
        batch = next(self._left, [])
        body = {"inputs": batch, "complete": not batch}
        self.room = int(self._store.ask("POST", f"/{self._job}/inputs", body)["room"])
        return bool(batch)

    def close(self) -> None:
        """End the thread if it runs, and close its connection."""
        self._ending = True
        if self.is_alive():
            self.join()
        self._store.connection.close()

    def run(self) -> None:
        """Name inputs while there is room for them."""
        try:
            more = True
            while more and not self._ending:
                if self.room >= _ROOM:
                    more = self.add()
                else:
                    time.sleep(_SLOW_LOOK)
                    self.room = int(self._store.ask("POST", f"/{self._job}/inputs", {})["room"])
        except FairleadError as error:
            self.error = error


def _feed(plan: SplitPlan, store: ServedStore, job: str) -> _Feed:
    """Name as many inputs as the coordinator takes before the start."""
    feed = _Feed(store, job, batches(plan))
    while feed.room >= _ROOM and feed.add():
        pass
    return feed


def _device_url(plan: SplitPlan, store: ServedStore, stack: ExitStack) -> str:
    if plan.link is None:
        return store.url
    link = Relay(("127.0.0.1", store.port), shared=True)
    stack.callback(link.close)
    link.change(bytes_per_s=plan.link)
    return f"http://{link.address[0]}:{link.address[1]}/"


def _start(
    plan: SplitPlan, store: ServedStore, job: str, device_url: str, stack: ExitStack
) -> Sequence[RateWorker]:
    workers = []
    here = f"{store.root}/jobs/{job}/in"
    for name, rate in zip(plan.names, plan.rates, strict=True):
        is_server = name == "server"
        spec = {
            "name": name,
            "rate": rate,
            "site": "pod" if is_server else "device",
            "url": store.url if is_server else device_url,
            "token": store.token,
            "job": job,
            "folder": f"{store.folder}/{name}",
            "inputs": here if is_server or plan.link is None else "",
            "has": "all" if not is_server and plan.link is None else "stored",
        }
        workers.append(start_worker(spec))
        stack.callback(workers[-1].end)
    for worker in workers:
        worker.wait_until_ready()
    return workers


def _watch(
    plan: SplitPlan,
    store: ServedStore,
    job: str,
    workers: Sequence[RateWorker],
    watch: _Watch,
    feed: _Feed,
) -> Mapping[str, Any]:
    """Wait for the end of the job, and strike when it is time."""
    end = watch.began + _PATIENCE[plan.rule == RULES[0]] * plan.seconds + _SPARE
    while True:
        state = store.ask("GET", f"/{job}")
        done = state["counts"]["done"]
        watch.copies = max(watch.copies, sum(each.get("copies", 0) for each in state["workers"]))
        if plan.event is not None and watch.struck is None and done >= plan.event.share * plan.inputs:
            watch.struck = time.time() - watch.began
            _strike(plan, workers)
        if state["state"] == "done":
            return state
        if feed.error is not None:
            raise feed.error
        if time.time() > end:
            seconds, left = end - watch.began, plan.inputs - done
            raise SplitBenchError(f"after {seconds:.0f} s {left} inputs have no result")
        time.sleep(_pause(plan, watch, done))


def _pause(plan: SplitPlan, watch: _Watch, done: int) -> float:
    if plan.event is None or watch.struck is not None:
        return _SLOW_LOOK
    left = plan.event.share * plan.seconds - done / plan.inputs * plan.seconds
    return _LOOK if left < 2 * _SLOW_LOOK else _SLOW_LOOK


def _strike(plan: SplitPlan, workers: Sequence[RateWorker]) -> None:
    assert plan.event is not None
    worker = workers[-1 if plan.event.is_of_server else 0]
    if plan.event.kind == "device-lost":
        worker.kill()
    else:
        worker.say(f"rate {worker.rate * FACTORS[plan.event.kind]}")


def _document(
    plan: SplitPlan, store: ServedStore, job: str, watch: _Watch, last: Mapping[str, Any]
) -> dict[str, Any]:
    makespan = last["last_result"] - watch.began
    changes = []
    if plan.event is not None and watch.struck is not None:
        changes.append(RateChange(watch.struck, plan.struck(plan.event)))
    ideal = ideal_makespan(plan.inputs, plan.best_rates, changes)
    _wait_for_files(store, job)
    checked = check_results(plan, _results(store, job), f"{store.root}/jobs/{job}/out")
    devices = sum(count for name, count in checked.by_worker.items() if name != "server")
    return {
        "makespan_s": round(makespan, 4),
        "ideal_s": round(ideal, 4),
        "over": round(makespan / ideal - 1, 5),
        "whole_inputs_s": round(whole_makespan(plan.inputs, plan.best_rates), 4),
        "inputs": plan.inputs,
        "results": checked.results,
        "lost": checked.lost,
        "doubled": checked.doubled,
        "device_share": round(devices / plan.inputs, 5),
        "copies": watch.copies,
        "struck_s": None if watch.struck is None else round(watch.struck, 4),
        "input_bytes": plan.input_size,
        "rule": plan.rule,
        "coordinator_peak_bytes": watch.peak,
    }


def _results(store: ServedStore, job: str) -> Iterator[Mapping[str, Any]]:
    after: int | None = 0
    while after is not None:
        page = store.ask("GET", f"/{job}/results?after={after}")
        yield from page["results"]
        after = page["next"]


def _wait_for_files(store: ServedStore, job: str) -> None:
    """Wait until the files of the last results are there."""
    end = time.monotonic() + _SPARE * 4
    while time.monotonic() < end:
        if not any(row["unplaced"] for row in _results(store, job)):
            return
        time.sleep(_SLOW_LOOK)
    raise SplitBenchError("the results are committed, and their files are not there")
