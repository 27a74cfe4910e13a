"""What a pod asks of the limiter of its node: by an annotation, or by the resources of HAMi. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.cluster.objects import Container, Pod
from fairlead.enforcement.request import Limit
from fairlead.inventory import Accelerator
from fairlead.keys import COMPUTE, HAMI_CORES, HAMI_MEM, HAMI_PERCENT, LIMITER
from fairlead.limiter import mps
from fairlead.offer import FolderMount, Grant
from fairlead.publish.memory_limit import MemoryLimit, limit_variables
from fairlead.publish.parts import Refusal
from fairlead.units import Bytes, parse_fraction, parse_quantity
from fairlead.warden.rules import MPS_PIPE, mps_pipe

_MPS, _NONE = "mps", "none"
_NVIDIA: Final = "nvidia"
"""The driver whose GPUs MPS serves."""
_HAMI: Final = (HAMI_MEM, HAMI_PERCENT, HAMI_CORES)
_WHOLE: Final = 100


@dataclass(frozen=True, slots=True)
class LimiterRequest:
    """What a container asks of the limiter."""

    memory: Bytes | None = None
    """The limit of each accelerator that our scheduler has set; None: the size of the share."""
    percent: int | None = None
    """Hundredths of the multiprocessors; None: all of them."""
    own: frozenset[str] = frozenset()
    """The variables that the container sets itself."""
    fault: str = ""
    """Why it cannot be limited."""


def limiter_request(
    pod: Pod, limit: MemoryLimit | None, containers: Collection[str] = (), *, hami: bool = False
) -> LimiterRequest | None:
    """Return what some containers of a pod ask of the limiter, without names all; None: nothing.

    `hami`: a pod with HAMi's resources asks as well, unless its annotation says `none`.
    """
    every = (*pod.spec.init_containers, *pod.spec.containers)
    chosen = [each for each in every if not containers or each.name in containers]
    stated = pod.metadata.annotations.get(LIMITER, "").strip()
    if stated == _NONE or (not stated and not (hami and any(map(_is_hami, every)))):
        return None
    if stated not in ("", _MPS):
        return LimiterRequest(fault=f"{LIMITER}: no limiter is called {stated[:40]!r}; write mps or none")
    own = frozenset(variable.name for each in chosen for variable in each.env)
    if mps.PIPE in own:
        return LimiterRequest(fault=f"{LIMITER}: the container sets {mps.PIPE} itself; leave one of them out")
    try:
        percent = _percent(pod, every)
    except ValueError as error:
        return LimiterRequest(fault=f"{COMPUTE}: {error}; write it like 25%")
    return LimiterRequest(limit.size if limit else None, percent, own)


def can_limit(acc: Accelerator) -> bool:
    """Say whether MPS can limit the users of an accelerator."""
    return acc.driver == _NVIDIA and bool(acc.uuid)


def limit_of(
    identity: str, request: LimiterRequest, shares: Sequence[tuple[Accelerator, int]]
) -> Limit | Refusal:
    """Return the limit of a container with shares of accelerators, each with its MiB, or why there is none.

    One daemon serves all of them with one limit: of different shares the smallest counts.
    """
    if request.fault:
        return Refusal(request.fault)
    for acc, _ in shares:
        if not can_limit(acc):
            return Refusal(f"{LIMITER}: MPS limits GPUs of NVIDIA's driver, and {acc.name} is none")
    share = min(mebibytes for _, mebibytes in shares)
    memory = share if request.memory is None else max(1, request.memory >> 20)
    return Limit(identity, tuple(acc.uuid or "" for acc, _ in shares), memory, request.percent)


def limit_grant(limit: Limit, own: frozenset[str], accelerators: Sequence[Accelerator]) -> Grant:
    """Return what a limited container receives: the sockets of its daemon, and the variables for CUDA.

    A framework gets its own variables too: under MPS it still reads the size of the whole GPU.
    """
    size = Bytes(limit.memory << 20)
    variables = {
        **limit_variables(MemoryLimit(size, own), accelerators),
        mps.PIPE: MPS_PIPE,
        mps.MEMORY_LIMIT: mps.memory_limit(size, len(limit.devices)),
        **({} if limit.percent is None else {mps.COMPUTE_LIMIT: str(limit.percent)}),
    }
    env = {name: value for name, value in variables.items() if name not in own}
    return Grant(env, mounts=(FolderMount(MPS_PIPE, mps_pipe(limit.identity)),))


def _is_hami(container: Container) -> bool:
    return any(name in container.resources.limits for name in _HAMI)


def _percent(pod: Pod, containers: Sequence[Container]) -> int | None:
    """Return the part of the compute that a pod states; None: all of it."""
    cores = [parse_quantity(each.resources.limits.get(HAMI_CORES, "0")) for each in containers]
    stated = max(cores, default=0)
    if not stated and (text := pod.metadata.annotations.get(COMPUTE, "")):
        stated = -(-parse_fraction(text) // 10)
    return stated if 0 < stated < _WHOLE else None
