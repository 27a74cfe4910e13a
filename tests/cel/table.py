"""The table of device selectors: expressions, devices, and the results of Kubernetes' own evaluator.

`python -m tests.cel.table` (`make cel-table`) writes `table.json` from `expressions.txt` and `slices.json`.
It builds the lab's part `cel`, a Go program around `k8s.io/dynamic-resource-allocation/cel`, once per user.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
TABLE: Final = FOLDER / "table.json"
_PLACE: Final = re.compile(r"ERROR: <input>:(\d+):(\d+): ")


@dataclass(frozen=True, slots=True)
class Row:
    """One expression and Kubernetes' results."""

    topic: str
    expression: str
    compile_error: str | None = None
    devices: tuple[bool | str, ...] = ()
    """For each device in the order of the slices: whether it matches, or the error of the evaluation."""

    @property
    def places(self) -> list[tuple[int, int]]:
        """Line and column of each fault that the compiler names, the first first."""
        return [(int(line), int(column)) for line, column in _PLACE.findall(self.compile_error or "")]

    def to_json(self) -> dict[str, Any]:
        """Return the row as the table stores it."""
        verdict = (
            {"devices": list(self.devices)}
            if self.compile_error is None
            else {"compile_error": self.compile_error}
        )
        return {"topic": self.topic, "expression": self.expression, **verdict}


def slices() -> list[dict[str, Any]]:
    """Return the ResourceSlices whose devices the expressions are evaluated on."""
    items: list[dict[str, Any]] = json.loads((FOLDER / "slices.json").read_text())["items"]
    return items


def rows() -> list[Row]:
    """Return the committed table."""
    return [
        Row(each["topic"], each["expression"], each.get("compile_error"), tuple(each.get("devices", ())))
        for each in json.loads(TABLE.read_text())["rows"]
    ]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each expression of `expressions.txt` with its topic: the blocks between empty lines, verbatim."""
    topic = ""
    for block in (FOLDER / "expressions.txt").read_text().strip("\n").split("\n\n"):
        title, _, rest = block.partition("\n")
        if title.startswith("## "):
            topic = title.removeprefix("## ")
        yield topic, rest if title.startswith("## ") else block


def ask(oracle: Path) -> list[Row]:
    """Run Kubernetes' evaluator on every expression and every device."""
    texts = list(expressions())
    request = json.dumps({"expressions": [text for _, text in texts], "slices": slices()})
    done = subprocess.run([oracle], input=request, capture_output=True, text=True, check=True, timeout=300)
    return [
        Row(topic, text, verdict.get("compile_error"), tuple(map(_result, verdict.get("devices", ()))))
        for (topic, text), verdict in zip(texts, json.loads(done.stdout), strict=True)
    ]


def _result(device: dict[str, Any]) -> bool | str:
    return str(device["error"]) if "error" in device else bool(device["matches"])


def write(oracle: Path, kubernetes: str) -> int:
    """Write the table, one line for each expression; return the number of expressions."""
    table_rows = ask(oracle)
    lines = ",\n".join(f"  {json.dumps(row.to_json(), ensure_ascii=False)}" for row in table_rows)
    TABLE.write_text(f'{{"kubernetes": "{kubernetes}", "rows": [\n{lines}\n]}}\n')
    return len(table_rows)


def main() -> int:
    """Build the oracle where it is missing, and write the table."""
    from fairlead.lab.build.modules import PARTS, pinned_version, sources  # noqa: PLC0415 - likewise
    from fairlead.lab.build.programs import are_built, ensure  # noqa: PLC0415 - reading the table needs no lab

    part = next(each for each in PARTS if each.name == "cel")
    if not are_built([part.name]):
        print("building cel-oracle: some minutes", file=sys.stderr)
    oracle = ensure([part.name])["cel-oracle"]
    count = write(oracle, pinned_version(part, sources() / part.name))
    print(f"{TABLE}: {count} expressions", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
