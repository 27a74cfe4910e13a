"""How two workers are joined: by a ring on one host, or by a link between two."""

from dataclasses import dataclass

from fairlead.pipeline.control import Message


@dataclass(frozen=True, slots=True)
class RingJoin:
    """A ring between two workers of one host."""

    edge: str
    sender: str
    receiver: str
    output: int
    """Which link of the edge at the sender."""
    input: int
    """Which link of the edge at the receiver."""
    slots: int
    path: int = 0
    """The number of the placement that the ring is for."""
    outputs: int = 1
    """How many links of the edge the sender has on this path."""
    inputs: int = 1
    """How many links of the edge the receiver has on this path."""
    share: int = 0
    """The percent of the frames that the ring carries at most; 0: any."""


@dataclass(frozen=True, slots=True)
class LinkJoin:
    """One end of a link between hosts."""

    session: str
    """Unique in the run."""
    sends: bool
    """Frames leave this host."""
    worker: str
    edge: str
    index: int
    """Which link of the edge at its worker."""
    slots: int
    contract: Message
    encode: str = ""
    """`jpeg`: how frames travel; empty: as they are."""
    dial: str = ""
    """The address of the other host; empty: it connects to this one."""
    path: int = 0
    """The number of the placement that the link is for."""
    links: int = 1
    """How many links of the edge its worker has on this path."""
    route: tuple[str, str] = ("", "")
    """The host that sends, and the one that receives."""
    share: int = 0
    """The percent of the frames that the link carries at most; 0: any."""
