"""The inputs of a measurement: made, named to the coordinator, and compared with what came of them."""

import hashlib
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from fairlead.splitbench.plan import SplitPlan
from fairlead.splitwork.fixed_rate import fixed_result

_BATCH: Final = 2000
_FOLDER: Final = 1000
"""Inputs in a folder."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of the inputs."""

    results: int
    """Inputs with exactly the content that is theirs."""
    lost: int
    doubled: int
    by_worker: Mapping[str, int]


def name_of(number: int) -> str:
    """Return the path of an input."""
    return f"{number // _FOLDER}/{number}"


def content_of(plan: SplitPlan, number: int) -> bytes:
    """Return the content of an input: no two are alike, where they are not empty."""
    head = f"{plan.seed} {number}\n".encode()
    rest = plan.input_size - len(head)
    return head + random.Random(number).randbytes(rest) if rest > 0 else head[: plan.input_size]  # noqa: S311  # no secret


def write_inputs(plan: SplitPlan, folder: str) -> None:
    """Write all inputs below a folder."""
    for number in range(plan.inputs):
        if number % _FOLDER == 0:
            os.makedirs(f"{folder}/{number // _FOLDER}", exist_ok=True)
        with open(f"{folder}/{name_of(number)}", "wb") as out:
            out.write(content_of(plan, number))


def batches(plan: SplitPlan) -> Iterator[list[dict[str, Any]]]:
    """Yield the inputs as a feeder states them."""
    stated = (_stated(plan, number) for number in range(plan.inputs))
    while batch := list(islice(stated, _BATCH)):
        yield batch


def check_results(plan: SplitPlan, rows: Iterator[Mapping[str, Any]], folder: str) -> Checked:
    """Compare committed results, and the files in a folder, with what the inputs must give."""
    seen = bytearray(plan.inputs)
    by_worker: dict[str, int] = {}
    doubled = 0
    numbers = {name_of(number): number for number in range(plan.inputs)}
    for row in rows:
        number = numbers[row["path"]]
        doubled += seen[number]
        seen[number] = 1
        by_worker[row["worker"]] = by_worker.get(row["worker"], 0) + 1
    right = sum(seen[number] and _is_right(plan, number, folder) for number in range(plan.inputs))
    files = sum(len(names) for _, _, names in os.walk(folder))
    return Checked(right, plan.inputs - right, doubled + max(0, files - plan.inputs), by_worker)


def _is_right(plan: SplitPlan, number: int, folder: str) -> bool:
    try:
        with open(f"{folder}/{name_of(number)}", "rb") as file:
            return file.read() == fixed_result(name_of(number), content_of(plan, number))
    except OSError:
        return False


def _stated(plan: SplitPlan, number: int) -> dict[str, Any]:
    content = content_of(plan, number)
    digest = hashlib.sha256(content).hexdigest()
    return {"path": name_of(number), "digest": digest, "size": len(content), "stored": True}
