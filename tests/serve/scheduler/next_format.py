"""The formats of a version of fairlead that is yet to come: the next of each that leaders write.

A process that adopts them does what that version will do: it reads both versions, and writes the next.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairlead.formats import Codec, VersionedFormat
from fairlead.manifest.types.live import LEADER_EPOCHS, LeaderMark
from fairlead.placement import PLACEMENTS
from fairlead.serve.scheduler.leader.in_flight import IN_FLIGHT_SETS, InFlightSet
from fairlead.share import DeviceShare
from fairlead.units import Bytes

NEXT = 2


def _encode_placement(shares: tuple[DeviceShare, ...]) -> dict[str, Any]:
    return {"devices": {share.device: [share.memory, share.compute, share.whole] for share in shares}}


def _decode_placement(body: dict[str, Any]) -> tuple[DeviceShare, ...]:
    return tuple(
        DeviceShare(device, Bytes(memory), compute, whole)
        for device, (memory, compute, whole) in body["devices"].items()
    )


def _encode_set(value: InFlightSet) -> dict[str, Any]:
    return {"created": [value.since, value.until], "objects": sorted(value.uids)}


def _decode_set(body: dict[str, Any]) -> InFlightSet:
    since, until = body["created"]
    return InFlightSet(since, until, frozenset(body["objects"]))


def _decode_mark(body: str) -> LeaderMark:
    nonce, _, epoch = body.partition(" ")
    return LeaderMark(int(epoch.rstrip("-")), nonce)


CODECS: tuple[tuple[VersionedFormat[Any], Codec[Any]], ...] = (
    (PLACEMENTS, Codec(_encode_placement, _decode_placement)),
    (IN_FLIGHT_SETS, Codec(_encode_set, _decode_set)),
    (LEADER_EPOCHS, Codec(lambda mark: f"{mark.nonce or '-'} {mark.epoch}", _decode_mark)),
)


@contextmanager
def adopted() -> Iterator[None]:
    """Read and write the next formats while the block runs."""
    for format_, codec in CODECS:
        format_.codecs[NEXT] = codec
    try:
        yield
    finally:
        for format_, _ in CODECS:
            del format_.codecs[NEXT]
