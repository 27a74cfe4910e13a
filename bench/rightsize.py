"""Hold the risks that `fairlead rightsize` states against what recorded pods did next.

Each series is cut into parts of equal length. The size comes from one part, with the stated probability that
the next part exceeds it; the next part shows whether it does. Sizes by the peak alone, and by the peak and a
fifth more, stand beside it. The intervals are Wilson's, at 95 %.
"""

import argparse
import platform
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import sqrt

from fairlead.cli.output.show import to_table
from fairlead.rightsize.csvfile import read_series
from fairlead.rightsize.recommend import MIN_SAMPLES
from fairlead.rightsize.tail import UseTail
from fairlead.series import Series
from fairlead.units import pluralize

BOUNDS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
FACTORS = (1.0, 1.2)
HEAD = ("PARTS", "SIZE", "STATED", "OBSERVED", "95% INTERVAL", "SIZE / PEAK (MEAN)")
Pair = tuple[Series, Series]
Z = 1.96


def pairs(series: Iterable[Series], parts: int) -> list[Pair]:
    """Return each part of a series that is long enough, with the part after it."""
    found: list[Pair] = []
    for each in series:
        size = len(each) // parts
        if size < MIN_SAMPLES or not max(each.values):
            continue
        cut = [
            Series(each.times[start : start + size], each.values[start : start + size])
            for start in range(0, size * parts, size)
        ]
        found += [(one, two) for one, two in pairwise(cut) if max(one.values)]
    return found


def interval(hits: int, number: int) -> str:
    """Return Wilson's interval of a share."""
    share, square = hits / number, Z * Z
    middle = (share + square / (2 * number)) / (1 + square / number)
    half = Z / (1 + square / number) * sqrt(share * (1 - share) / number + square / (4 * number * number))
    return f"{max(0.0, middle - half):.4f} to {middle + half:.4f}"


def row(parts: int, name: str, stated: str, sizes: Sequence[float], found: Sequence[Pair]) -> tuple[str, ...]:
    """Return one line of the table."""
    hits = sum(max(after.values) > size for size, (_, after) in zip(sizes, found, strict=True))
    ratio = sum(size / max(before.values) for size, (before, _) in zip(sizes, found, strict=True)) / len(
        found
    )
    return str(parts), name, stated, f"{hits / len(found):.4f}", interval(hits, len(found)), f"{ratio:.2f}"


def rows(series: Sequence[Series], parts: int) -> list[tuple[str, ...]]:
    """Return the lines for one number of parts."""
    found = pairs(series, parts)
    table = []
    for factor in FACTORS:
        sizes = [factor * max(before.values) for before, _ in found]
        table.append(row(parts, f"{factor:g} x peak", "-", sizes, found))
    for bound in BOUNDS:
        sizes = [
            UseTail.of([before], after.times[-1] - before.times[-1]).size(bound) for before, after in found
        ]
        table.append(row(parts, "rightsize", f"{bound:g}", sizes, found))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--series", required=True, help="a CSV file, as `fairlead rightsize --series` reads it"
    )
    options = parser.parse_args()
    series = [each.memory for each in read_series(options.series)[0] if each.memory]
    print(f"{pluralize(len(series), 'series', 'series')}, Python {platform.python_version()}")
    print(to_table(HEAD, [line for parts in (2, 4) for line in rows(series, parts)]))


if __name__ == "__main__":
    main()
