"""The wire format of kube-scheduler's extender API, v1. Names are as its Go types spell them."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

from fairlead.cache.types import LivePod
from fairlead.errors import UserError
from fairlead.serve.extender.node_evaluator import NodeVerdicts

NODES_LIMIT: Final = 65_536
"""The most nodes of one request: the largest body can name a million, which take 130 MiB when decoded."""
_NULL: Final = b"null"
JSON: Final = "application/json"


class ExtenderArgs(Struct, frozen=True):
    """ExtenderArgs: a pod, and the names of the nodes to evaluate."""

    pod: LivePod = field(name="Pod")
    nodes: msgspec.Raw = field(name="Nodes", default=msgspec.Raw(_NULL))
    names: tuple[str, ...] | None = field(name="NodeNames", default=None)


class _FilterResult(Struct, frozen=True):
    """ExtenderFilterResult."""

    names: Sequence[str] = field(name="NodeNames")
    failed: dict[str, str] = field(name="FailedNodes")
    for_good: dict[str, str] = field(name="FailedAndUnresolvableNodes")
    error: str = field(name="Error", default="")


class _HostPriority(Struct, frozen=True, gc=False):
    """HostPriority."""

    host: str = field(name="Host")
    score: int = field(name="Score")


_ARGS: Final = msgspec.json.Decoder(ExtenderArgs)
_ENCODER: Final = msgspec.json.Encoder()


def decode(body: bytes) -> ExtenderArgs:
    """Decode a request; UserError with the reason where it is invalid."""
    try:
        args = _ARGS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"the body is not an ExtenderArgs: {error}") from None
    if args.names is None:
        sent = "whole nodes were sent" if bytes(args.nodes) != _NULL else "no NodeNames were sent"
        raise UserError(f"{sent}: set nodeCacheCapable: true in the KubeSchedulerConfiguration")
    if len(args.names) > NODES_LIMIT:
        raise UserError(f"{len(args.names)} NodeNames are more than the {NODES_LIMIT} of one request")
    return args


def encode_verdict(verdict: NodeVerdicts) -> bytes:
    """Return an ExtenderFilterResult."""
    return _ENCODER.encode(_FilterResult(verdict.passed, verdict.failed, verdict.for_good))


def encode_scores(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """Return a HostPriorityList."""
    return _ENCODER.encode(list(map(_HostPriority, names, scores)))
