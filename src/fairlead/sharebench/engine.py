"""`python -m fairlead.sharebench.engine`: one inference engine; a comparison starts it, never a person."""

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from fairlead.errors import FairleadError
from fairlead.sharebench.events import EventLog
from fairlead.sharebench.turns import EngineTurns
from fairlead.units import Bytes

WARM_UP: Final = 10
"""Queries before those that count: libraries load their kernels in them."""
GROWS_AFTER: Final = 50
"""Queries after which an engine with --grow asks for more memory."""
OUT_OF_MEMORY: Final = 3
"""The exit code of an engine that memory was refused to."""
_MOST_TEXT: Final = 300


class Network(Protocol):
    """A network that answers queries."""

    def load(self) -> None:
        """Load it."""

    def query(self, number: int) -> bytes:
        """Return the answer to one query."""

    def hold(self, size: Bytes, by: str) -> None:
        """Hold this much more memory, asked for by the framework or by the driver."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve, and return the exit code."""
    options = _parser().parse_args(argv)
    with EventLog.open(os.environ) as log:
        return _run(options, log)


def _run(options: argparse.Namespace, log: EventLog) -> int:
    job, mps = os.environ.get("FAIRLEAD_JOB_ID", ""), os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "")
    log.write("started", network=options.network, job=job, mps=mps)
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    turns = EngineTurns(options.turns) if options.turns else None
    try:
        network = RUNTIMES[options.runtime](options.network, options.device)
        network.load()
        network.hold(Bytes(options.cache), "framework")
        serve(network, log, options.queries, Bytes(options.grow), options.grow_by, turns)
    except Exception as error:  # noqa: BLE001 - runtimes raise exceptions of any class; each ends an engine
        return _failed(log, error)
    return 0


def serve(
    network: Network, log: EventLog, queries: int, grow: Bytes, by: str, turns: EngineTurns | None = None
) -> None:
    """Answer all queries; write the seconds of each, and the digest of all answers."""
    for number in range(min(WARM_UP, queries)):
        network.query(number)
    log.write("ready")
    latencies, digest = [], hashlib.sha256()
    for number in range(queries):
        if grow and number == GROWS_AFTER:
            log.write("grows", bytes=grow, by=by)
            network.hold(grow, by)
            log.write("grew")
        if turns is not None:
            turns.before(number)
        began = time.perf_counter()
        answer = network.query(number)
        latencies.append(round(time.perf_counter() - began, 7))
        digest.update(answer)
        if turns is not None:
            turns.after(number)
    log.write("done", latencies=latencies, sha256=digest.hexdigest())


def is_out_of_memory(error: Exception) -> bool:
    """Return whether memory was refused."""
    return "OutOfMemory" in type(error).__name__ or "out of memory" in str(error).lower()


def _failed(log: EventLog, error: Exception) -> int:
    text = " ".join(f"{type(error).__name__}: {error}".split())[:_MOST_TEXT]
    hint = f" ({error.hint})" if isinstance(error, FairleadError) and error.hint else ""
    refused = is_out_of_memory(error)
    log.write("refused" if refused else "failed", error=text)
    print(f"{text}{hint}", file=sys.stderr, flush=True)  # noqa: T201 - the log of its job
    return OUT_OF_MEMORY if refused else 1


def _torch(network: str, device: str) -> Network:
    from fairlead.sharebench.torch_network import TorchNetwork  # noqa: PLC0415 - the other may not be installed

    return TorchNetwork(network, device)


def _onnxruntime(network: str, device: str) -> Network:
    from fairlead.sharebench.ort_network import OrtNetwork  # noqa: PLC0415 - the other may not be installed

    return OrtNetwork(network, device)


RUNTIMES: Final[dict[str, Callable[[str, str], Network]]] = {"torch": _torch, "onnxruntime": _onnxruntime}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fairlead.sharebench.engine")
    parser.add_argument("--network", required=True)
    parser.add_argument("--runtime", choices=tuple(RUNTIMES), default="torch")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--cache", type=int, default=0)
    parser.add_argument("--grow", type=int, default=0)
    parser.add_argument("--grow-by", choices=("framework", "driver"), default="driver")
    parser.add_argument("--turns", default="")
    parser.add_argument("--core", type=int)
    return parser


if __name__ == "__main__":
    sys.exit(main())
