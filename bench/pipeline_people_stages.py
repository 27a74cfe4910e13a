"""Stages of bench/pipeline_people.py: when a frame is read, and when its counts are there.

Workers import this file by its path, so that it imports nothing of the benchmark.
"""

import json
import os
import time
from typing import Any


class Read:
    """Note when each frame comes from the source; the times are in the file that READ_TIMES names."""

    def open(self) -> None:
        """Begin without times."""
        self._times: list[float] = []

    def process(self, image: Any) -> Any:
        """Pass a frame on."""
        self._times.append(time.monotonic())
        return image

    def close(self) -> None:
        """Write the times."""
        with open(os.environ["READ_TIMES"], "w", encoding="utf-8") as file:
            json.dump(self._times, file)


def counted(record: dict[str, Any]) -> dict[str, Any]:
    """Add when the counts of a frame are there."""
    return {"counts": record, "at": time.monotonic()}
