"""The engines of a comparison: which networks they serve, and the memory that each holds."""

import os
import sys
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from fairlead.units import Bytes

MODULE: Final = "fairlead.sharebench.engine"
OUT: Final = "FAIRLEAD_BENCH_OUT"
"""The variable that names the folder to which engines write what they did."""
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ServingKind:
    """Engines that serve the same network with the same settings."""

    network: str
    """Its name in the zoo."""
    cache: Bytes
    """What the engine holds beside weights, activations and CUDA's context, as a server keeps a cache."""
    runtime: str = "torch"

    @property
    def name(self) -> str:
        """The name for people."""
        return self.network if self.runtime == "torch" else f"{self.network}-{self.runtime}"


@dataclass(frozen=True, slots=True)
class ServingEngine:
    """One engine of a comparison."""

    name: str
    kind: ServingKind


GPU_KINDS: Final = (
    ServingKind("mobilenet_v1", Bytes(512 * MIB)),
    ServingKind("ssd_mobilenet_v1", Bytes(2048 * MIB)),
    ServingKind("resnet50", Bytes(6144 * MIB)),
    ServingKind("inception_v3", Bytes(12288 * MIB)),
)
"""About 1.2, 2.7, 6.7 and 12.7 GiB: sixteen engines fit into an H200, and twice what they use does not."""
CPU_KINDS: Final = (
    ServingKind("thread", Bytes(8 * MIB)),
    ServingKind("columns", Bytes(16 * MIB)),
    ServingKind("mixer", Bytes(32 * MIB)),
    ServingKind("ladder", Bytes(64 * MIB)),
)
"""Small networks, for a machine without a GPU."""


def kinds_of(device: str, runtimes: tuple[str, ...] = ("torch",)) -> tuple[ServingKind, ...]:
    """Return the kinds of engines for `cuda` or `cpu`.

    The first runtime serves every network; each further one serves the first network, too.
    """
    kinds = GPU_KINDS if device == "cuda" else CPU_KINDS
    first, *others = runtimes
    return (
        *(replace(kind, runtime=first) for kind in kinds),
        *(replace(kinds[0], runtime=other) for other in others),
    )


def engines_of(kinds: tuple[ServingKind, ...], count: int, seed: int) -> tuple[ServingEngine, ...]:
    """Return engines, equally many of each kind as far as the number allows, in an order by the seed."""
    chosen = [kinds[index % len(kinds)] for index in range(count)]
    Random(seed).shuffle(chosen)  # noqa: S311 - an order, not a secret
    return tuple(ServingEngine(f"e{index:02d}-{kind.name}", kind) for index, kind in enumerate(chosen))


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """How engines are started; the same words for every engine of a kind, by which the queue learns them."""

    queries: int
    device: str
    program: tuple[str, ...] = (sys.executable, "-m", MODULE)

    def words(self, kind: ServingKind, *more: str) -> tuple[str, ...]:
        """Return the words of an engine of a kind."""
        return (
            *self.program,
            *("--network", kind.network, "--runtime", kind.runtime, "--device", self.device),
            *("--queries", str(self.queries), "--cache", str(kind.cache), *more),
        )


def engine_variables(out: str) -> dict[str, str]:
    """Return what every engine gets: its folder, one thread, and what repeatable results need."""
    import fairlead  # noqa: PLC0415 - where this package lies

    root = os.path.dirname(os.path.dirname(os.path.abspath(fairlead.__file__)))
    inherited = os.environ.get("PYTHONPATH", "")
    return {
        OUT: out,
        "OMP_NUM_THREADS": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PYTHONPATH": os.pathsep.join([root, *filter(None, [inherited])]),
    }
