"""Synthetic documents in batches: files with a line of JSON for each, the same for the same number."""

import json
import os
import random
from collections.abc import Iterator
from typing import Any, Final

PER_BATCH: Final = 200
_WORDS: Final = 120
_VOCABULARY: Final = 20_000


def write_batches(folder: str, count: int, per_batch: int = PER_BATCH) -> list[str]:
    """Write batches that do not exist yet, and return the names of all."""
    os.makedirs(folder, exist_ok=True)
    names = [f"{number:06}.jsonl" for number in range(count)]
    for number, name in enumerate(names):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(each)}\n" for each in documents(number, per_batch))
    return names


def documents(batch: int, per_batch: int = PER_BATCH) -> Iterator[dict[str, Any]]:
    """Yield the documents of a batch: an id, a title and a body of common and rare words."""
    draw = random.Random(batch)  # noqa: S311 - made-up text, no secret
    for number in range(per_batch):
        words = [f"w{int(_VOCABULARY * draw.random() ** 3)}" for _ in range(_WORDS)]
        yield {"id": batch * per_batch + number, "title": " ".join(words[:6]), "body": " ".join(words)}


def prepare(path: str) -> bytes:
    """Return a batch as the service takes it: what a loader does before it sends."""
    lines = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            document = json.loads(line)
            document["title"] = document["title"].strip().lower()
            document["length"] = len(document["body"].split())
            lines.append(json.dumps(document, separators=(",", ":")))
    return "\n".join(lines).encode()
