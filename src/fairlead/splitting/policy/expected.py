"""The expected time, energy and traffic of one alternative; or why it is impossible.

Compute, upload and download go on at the same time, so that the slowest of them is the time:

    device    inputs of the device / its rate, after its start
    server    inputs of the server / its rate, after its start
    up        inputs that only the device has and the server computes; results that go to the server
    down      inputs that only the server has and the device computes; results that go to the device

Each is convex in the server's share of the inputs, and so is the largest of them. A split has the share at
which that is least, also where energy counts: workers that pull inputs bring about no other one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.splitting.policy.facts import (
    Compute,
    OffloadFacts,
    OffloadLink,
    SideFacts,
    Storage,
)
from fairlead.units import Bytes, format_bytes

_STEPS: Final = 100
_LEAST_RATE: Final = 1e-9
"""A link that carries nothing: finite, so that the least of a sum with it can be found."""
_NEVER: Final = 1e9
"""Seconds after which nobody waits."""
_NO_LINK: Final = OffloadLink(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class OffloadChoice:
    """Where inputs are computed and where results are kept."""

    compute: Compute
    storage: Storage

    @property
    def offloads(self) -> str:
        """What is offloaded: `nothing`, `compute`, `storage`, `compute and storage`."""
        parts = [
            *(["compute"] if self.compute is not Compute.DEVICE else []),
            *(["storage"] if self.storage is Storage.SERVER else []),
        ]
        return " and ".join(parts) or "nothing"


@dataclass(frozen=True, slots=True)
class Impossible:
    """An alternative that cannot be taken."""

    choice: OffloadChoice
    reason: str


@dataclass(frozen=True, slots=True)
class ExpectedCost:
    """What an alternative is expected to take."""

    choice: OffloadChoice
    seconds: float | None
    """None: a rate is not known."""
    limit: str = ""
    """What takes the time: `device`, `server`, `link up` or `link down`."""
    server_share: float = 0.0
    """The share of the inputs that the server computes."""
    server_seconds: float = 0.0
    """Seconds in which the server computes."""
    up: float = 0.0
    """Bytes from the device to the server."""
    down: float = 0.0
    joules: float = 0.0
    """Of the device, over the whole time."""


CHOICES: Final = tuple(OffloadChoice(compute, storage) for compute in Compute for storage in Storage)
"""Every alternative."""


def expect(choice: OffloadChoice, facts: OffloadFacts) -> ExpectedCost | Impossible:
    """Return what an alternative takes, or why it is impossible."""
    refusal = next(_refusals(choice, facts), "")
    if refusal:
        return Impossible(choice, refusal)
    if any(side.rate.per_s is None for side in _sides(choice.compute, facts).values()):
        return ExpectedCost(choice, None)
    expectation = _at_share(choice, facts, _best_share(choice, facts))
    if expectation.seconds is not None and expectation.seconds > _NEVER:
        return Impossible(choice, f"it never ends: {expectation.limit} is too slow")
    wrong = next(_shortages(expectation, facts), "")
    return Impossible(choice, wrong) if wrong else expectation


def _sides(compute: Compute, facts: OffloadFacts) -> Mapping[str, SideFacts]:
    device, server = {"the device": facts.device}, {"the server": facts.server}
    return {Compute.DEVICE: device, Compute.SERVER: server, Compute.SPLIT: device | server}[compute]


def _refusals(choice: OffloadChoice, facts: OffloadFacts) -> Iterator[str]:
    if facts.link is None and choice.offloads != "nothing":
        yield "the server cannot be reached"
    if facts.link is None and facts.on_device < 1:
        yield "the server has inputs, and cannot be reached"
    if facts.storage is not None and choice.storage is not facts.storage:
        yield f"results belong to the {facts.storage.value}"
    for name, side in _sides(choice.compute, facts).items():
        if side.refusal:
            yield f"{name} cannot compute: {side.refusal}"


def _shortages(expectation: ExpectedCost, facts: OffloadFacts) -> Iterator[str]:
    """Yield what the sides lack: space for results and for inputs that are sent, and energy."""
    at_device = expectation.choice.storage is Storage.DEVICE
    results = facts.inputs * facts.result_bytes
    # The server keeps what is uploaded until the job is done; the device drops an input that it has computed.
    made_there = expectation.server_share * results
    needs = {
        "device": (results if at_device else 0.0, facts.device.free),
        "server": (expectation.up + (0.0 if at_device else made_there), facts.server.free),
    }
    for name, (needed, free) in needs.items():
        if free is not None and needed > free:
            words = f"{format_bytes(free)} free, and {format_bytes(Bytes(int(needed)))} are needed"
            yield f"the {name} has {words}"
    energy = facts.device.energy
    if energy is not None and expectation.joules > energy:
        yield f"it takes {expectation.joules:.0f} J of the device, which has {energy:.0f} J"


def _best_share(choice: OffloadChoice, facts: OffloadFacts) -> float:
    """Return the server's share of the inputs with the least time."""
    if choice.compute is not Compute.SPLIT:
        return 0.0 if choice.compute is Compute.DEVICE else 1.0

    def seconds(share: float) -> float:
        return max(_times(choice, facts, share).values())

    return _least(seconds)


def _least(cost: Callable[[float], float]) -> float:
    """Return where a convex function of 0 to 1 is least."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        if cost(one) <= cost(two):
            high = two
        else:
            low = one
    return min((0.0, 1.0, (low + high) / 2), key=cost)


def _times(choice: OffloadChoice, facts: OffloadFacts, share: float) -> dict[str, float]:
    """Return the seconds of each thing that goes on; `share` of the inputs are the server's."""
    link = facts.link or _NO_LINK
    up, down = _traffic(choice, facts, share)
    crosses = up + down > 0
    return {
        "device": _compute(facts.device, facts.inputs * (1 - share)),
        "server": _compute(facts.server, facts.inputs * share),
        "link up": _transfer(up, link.up) + (link.round_trip_s if crosses else 0.0),
        "link down": _transfer(down, link.down) + (link.round_trip_s if crosses else 0.0),
    }


def _compute(side: SideFacts, inputs: float) -> float:
    return side.start_s + inputs / side.rate.per_s if inputs > 0 and side.rate.per_s else 0.0


def _transfer(count: float, rate: float) -> float:
    return count / max(rate, _LEAST_RATE) if count > 0 else 0.0


def _traffic(choice: OffloadChoice, facts: OffloadFacts, share: float) -> tuple[float, float]:
    """Return the bytes up and down: each side takes what it has first."""
    sent = max(0.0, share - facts.stored) * facts.input_bytes
    fetched = max(0.0, 1 - share - facts.on_device) * facts.input_bytes
    if choice.storage is Storage.SERVER:
        sent += (1 - share) * facts.result_bytes
    else:
        fetched += share * facts.result_bytes
    return facts.inputs * sent, facts.inputs * fetched


def _at_share(choice: OffloadChoice, facts: OffloadFacts, share: float) -> ExpectedCost:
    times = _times(choice, facts, share)
    limit = max(times, key=lambda name: times[name])
    seconds = times[limit]
    up, down = _traffic(choice, facts, share)
    link = facts.link or _NO_LINK
    busy = min(seconds, times["device"])
    transfer = _transfer(up, link.up) + _transfer(down, link.down)
    side = facts.device
    joules = side.busy_watts * busy + side.idle_watts * (seconds - busy) + link.watts * transfer
    return ExpectedCost(choice, seconds, limit, share, times["server"], up, down, joules)
