"""The work on one input, as a worker calls it: `detect(path)` and `load(path)`, paced to a rate.

`FAIRLEAD_PACE_S` are the seconds that an input takes at least on the worker: the real work is done, and the
rest is waited for. Without it a worker is as fast as it is.
"""

import os
import time
import urllib.parse
from collections.abc import Callable
from functools import cache
from http.client import HTTPConnection
from typing import Final

from fairlead.reproduce.augment.detector import CPU, DetectorRuntime, open_detector
from fairlead.reproduce.augment.detector import detect as detect_with
from fairlead.reproduce.augment.documents import prepare

PACE: Final = "FAIRLEAD_PACE_S"
MODEL: Final = "FAIRLEAD_DETECTOR"
PROVIDER: Final = "FAIRLEAD_DETECTOR_PROVIDER"
SERVICE: Final = "FAIRLEAD_SEARCH_SERVICE"
IMAGES, DOCUMENTS = "images", "documents"


def detect(path: str) -> bytes:
    """Return the boxes of an image."""
    return _paced(lambda: detect_with(_detector(), path))


def load(path: str) -> bytes:
    """Prepare a batch and load it into the search service; return what that says."""
    return _paced(lambda: _load(path))


CALLS: Final[dict[str, Callable[[str], bytes]]] = {IMAGES: detect, DOCUMENTS: load}
"""By job."""


@cache
def _detector() -> DetectorRuntime:
    return open_detector(os.environ[MODEL], os.environ.get(PROVIDER, CPU))


@cache
def _connection() -> HTTPConnection:
    address = urllib.parse.urlsplit(os.environ[SERVICE])
    return HTTPConnection(address.hostname or "", address.port, timeout=60)


def _load(path: str) -> bytes:
    connection = _connection()
    connection.request("POST", "/bulk", prepare(path), {"Content-Type": "application/x-ndjson"})
    reply = connection.getresponse()
    answer = reply.read()
    if reply.status != 200:
        raise RuntimeError(f"the search service refused {os.path.basename(path)}: {answer.decode()[:200]}")
    return answer


def _paced(work: Callable[[], bytes]) -> bytes:
    begin = time.monotonic()
    result = work()
    rest = float(os.environ.get(PACE, "0")) - (time.monotonic() - begin)
    if rest > 0:
        time.sleep(rest)
    return result
