"""A round of federated training: each device trains on its samples, then exchanges the weights.

A device that gets n samples is done after `n * seconds of a sample + seconds of its exchange`. The round ends
with the slowest. The split that lets all end together gives each device as many samples as fit into the same
time; a device whose exchange alone takes longer gets none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.units import Bytes, BytesPerSecond, Seconds


@dataclass(frozen=True, slots=True)
class Participant:
    """A device of a round."""

    device: str
    sample_seconds: float
    """Of one sample in all local epochs."""
    exchange_seconds: float
    """To fetch the weights and send them back."""

    def round_seconds(self, samples: int) -> Seconds:
        """Return when it is done with its samples; without any it takes no part."""
        return Seconds(samples * self.sample_seconds + self.exchange_seconds if samples else 0.0)


@dataclass(frozen=True, slots=True)
class RoundPart:
    """The part of one device in a round."""

    device: str
    samples: int
    seconds: Seconds
    """Until it has sent its weights."""
    exchange: Seconds
    """The part of them on the link."""
    equal_samples: int
    equal_seconds: Seconds
    """The same if all devices get as many samples."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "device": self.device,
            "samples": self.samples,
            "seconds": self.seconds,
            "exchange_seconds": self.exchange,
            "equal_samples": self.equal_samples,
            "equal_seconds": self.equal_seconds,
        }


@dataclass(frozen=True, slots=True)
class Round:
    """A round of federated training."""

    parts: tuple[RoundPart, ...]
    weights: Bytes
    """What each device fetches, and sends."""
    link: BytesPerSecond

    @property
    def seconds(self) -> Seconds:
        """Of the round in which all devices end together."""
        return max((part.seconds for part in self.parts), default=Seconds(0.0))

    @property
    def equal_seconds(self) -> Seconds:
        """Of the round in which all devices get as many samples."""
        return max((part.equal_seconds for part in self.parts), default=Seconds(0.0))

    @property
    def straggler(self) -> str:
        """The device that the others wait for if all get as many samples."""
        return max(self.parts, key=lambda part: part.equal_seconds).device if self.parts else ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the contract."""
        return {
            "round_seconds": self.seconds,
            "equal_round_seconds": self.equal_seconds,
            "straggler": self.straggler,
            "weights_bytes": self.weights,
            "link_bytes_per_second": self.link,
            "devices": [part.to_json() for part in self.parts],
        }


def federated_round(
    devices: Sequence[tuple[str, float]], samples: int, epochs: int, weights: Bytes, link: BytesPerSecond
) -> Round:
    """Return a round of `samples` on devices, each with the seconds that a sample takes it."""
    exchange = 2 * weights / link
    members = [Participant(name, seconds * epochs, exchange) for name, seconds in devices]
    split = samples_that_end_together(members, samples)
    equal = [samples // len(members) + (place < samples % len(members)) for place in range(len(members))]
    parts = (
        RoundPart(
            member.device,
            share,
            member.round_seconds(share),
            Seconds(exchange if share else 0.0),
            same,
            member.round_seconds(same),
        )
        for member, share, same in zip(members, split, equal, strict=True)
    )
    return Round(tuple(parts), weights, link)


def samples_that_end_together(members: Sequence[Participant], samples: int) -> list[int]:
    """Return the samples of each member such that the round is as short as possible."""
    chosen = set(range(len(members)))
    end = 0.0
    while chosen:
        rate = sum(1 / members[place].sample_seconds for place in chosen)
        lost = sum(members[place].exchange_seconds / members[place].sample_seconds for place in chosen)
        end = (samples + lost) / rate
        late = {place for place in chosen if members[place].exchange_seconds >= end}
        if not late or late == chosen:
            break
        chosen -= late
    shares = [0] * len(members)
    for place in chosen:
        member = members[place]
        shares[place] = max(0, int((end - member.exchange_seconds) / member.sample_seconds))
    for _ in range(samples - sum(shares)):
        soonest = min(chosen, key=lambda place: members[place].round_seconds(shares[place] + 1))
        shares[soonest] += 1
    return shares
