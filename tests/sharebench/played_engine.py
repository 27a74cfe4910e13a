"""An engine whose network is played: it answers by its name, and refuses or fails as the environment says.

PLAYED_FAILS names networks that fail when they load, PLAYED_SECONDS the time of a query. Memory that the
driver is asked for is refused.
"""

import os
import sys
import time

from fairlead.sharebench import engine
from fairlead.units import Bytes


class PlayedNetwork:
    """A network without any weights."""

    def __init__(self, network: str, device: str) -> None:
        self._network = network

    def load(self) -> None:
        """Fail, if the environment says so."""
        if self._network in os.environ.get("PLAYED_FAILS", "").split(","):
            raise RuntimeError("the played network fails")

    def query(self, number: int) -> bytes:
        """Answer by the name and the number."""
        time.sleep(float(os.environ.get("PLAYED_SECONDS", "0")))
        return f"{self._network} {number}".encode()

    def hold(self, size: Bytes, by: str) -> None:
        """Refuse what the driver is asked for."""
        if by == "driver":
            raise MemoryError("out of memory: played")


if __name__ == "__main__":
    engine.RUNTIMES["torch"] = PlayedNetwork
    sys.exit(engine.main())
