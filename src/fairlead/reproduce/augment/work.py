"""One worker without the framework: `python -m fairlead.reproduce.augment.work JOB INPUTS RESULTS`.

It says `ready` when it has done one input, waits for a line, and does every path of the list.
"""

import json
import os
import sys
import time
from collections.abc import Mapping

from fairlead.reproduce.augment.function import CALLS


def main(words: list[str]) -> None:
    """Do the inputs of a list, and print the seconds."""
    job, listed, results = words
    with open(listed, encoding="utf-8") as file:
        paths = file.read().splitlines()
    call = CALLS[job]
    if job == "images":
        call(paths[0])  # loads the model
    _say({"ready": True})
    sys.stdin.readline()
    began, cpu = time.monotonic(), time.process_time()
    for path in paths:
        result = call(path)
        with open(os.path.join(results, f"{os.path.basename(path)}.json"), "wb") as file:
            file.write(result)
    answer = {"inputs": len(paths), "seconds": time.monotonic() - began, "cpu": time.process_time() - cpu}
    _say(answer)


def _say(document: Mapping[str, object]) -> None:
    sys.stdout.write(f"{json.dumps(document)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
