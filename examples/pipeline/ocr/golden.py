"""Compare what was read with what is printed on the page: python golden.py [text.jsonl].

Every line of golden.txt must be among the lines that were read, with all its characters. Spaces do not count:
the recogniser leaves some out in small print.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent


def missing(golden: Iterable[str], records: Iterable[str]) -> list[str]:
    """Return the lines of the page that are not among the lines of the records, spaces aside."""
    read = {_letters(line["text"]) for record in records for line in json.loads(record)["value"]["lines"]}
    return [line for line in golden if _letters(line) not in read]


def _letters(line: str) -> str:
    return "".join(line.split())


def main(words: Sequence[str]) -> int:
    """Print how many lines were read; return the exit code."""
    golden = (HERE / "golden.txt").read_text(encoding="utf-8").splitlines()
    records = Path(words[0] if words else "text.jsonl").read_text(encoding="utf-8").splitlines()
    lost = missing(golden, records)
    sys.stdout.write(f"{len(golden) - len(lost)} of {len(golden)} lines of page.png were read\n")
    for line in lost:
        sys.stdout.write(f"not read: {line}\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
