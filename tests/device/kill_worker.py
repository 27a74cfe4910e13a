"""Queues uploads until it is killed, and says of each that it is queued."""

import hashlib
import os
import random
import sys
import time

from fairlead.device.place import DevicePlace
from fairlead.device.queue import UploadQueue


def content_of(seed: int, number: int) -> bytes:
    """Return the content of an upload."""
    chance = random.Random(f"{seed} {number}")
    return chance.randbytes(chance.choice((0, 1, 5_000, 300_000)))


def main() -> None:
    """Queue uploads: of several paths, some of them again and again."""
    folder, seed, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    place = DevicePlace.joined(os.environ, None)
    source = os.path.join(folder, "source")
    with UploadQueue(place) as queue:
        while True:
            content = content_of(seed, number)
            with open(source, "wb") as file:
                file.write(content)
            queue.add(source, f"p{number % 7}", time.time())
            print(number, hashlib.sha256(content).hexdigest(), flush=True)
            number += 1


if __name__ == "__main__":
    main()
