"""Read what a description says of a processor's cores: `Cortex-A76 2.4GHz x 4 + Cortex-A55 1.8GHz x 4`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fairlead.evaluate.naming import Name, longest_name, look_up, normalise, split_words

_CLOCK: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([gm])hz")
_COUNT: Final = re.compile(r"(?:\bx|\*|mp|mc) ?([0-9]{1,3})\b|\b([0-9]{1,3})[ -]?(?:x\b|cores?\b)")
_NUMERALS: Final = {
    "single": 1,
    "dual": 2,
    "two": 2,
    "quad": 4,
    "four": 4,
    "six": 6,
    "hexa": 6,
    "octa": 8,
    "eight": 8,
}
_INSTANCE: Final = re.compile(r"\b([a-z][0-9][a-z]*)\.([0-9]*)(medium|large|xlarge)\b")
_PIECES: Final = re.compile(r"[+;,()\[\]/&]")
_CLUSTER: Final = re.compile(r"\s*(.+?) x ([0-9]+) @ ([0-9.]+)\s*")
_CORES: Final = 4
"""Of a processor that is named without their number."""
_SHARED: Final = 0.7
"""N cores do the work of N to this power: they share caches, memory and small layers."""
_NARROW: Final = ("int8", "fp16")


@dataclass(frozen=True, slots=True)
class CoreCluster:
    """Cores of one kind; 0 where their number, or their clock in GHz, is not said."""

    core: Name
    count: int = 0
    clock: float = 0.0


@dataclass(frozen=True, slots=True)
class Processors:
    """What data sheets say of cores, and of which ones chips are made."""

    cores: Mapping[Name, Mapping[str, float]]
    """Operations per cycle, usual clock, and what narrow numbers gain."""
    lines: Mapping[Name, Mapping[str, float]]
    """The same of product lines, such as Xeon, for where the cores themselves are not named."""
    chips: Mapping[Name, str]

    def ops(self, device: str, precision: str) -> float | None:
        """Add up the cores; a description that lacks clocks or counts gives way to the chip's data sheet."""
        found = self.clusters(device)
        words = split_words(device)
        chip = look_up(words, self.chips) or look_up([word.rstrip("+") for word in words], self.chips)
        if chip is not None and not (found and all(one.count and one.clock for one in found)):
            found = _parse_chip(chip)
        return sum(self._speed(one, precision) for one in found) or None

    def clusters(self, device: str) -> list[CoreCluster]:
        """Return the clusters that are named; where there are none, the processor of a product line."""
        text = normalise(device)
        cores, line = _read_clusters(text, self.cores), _read_clusters(text, self.lines)[:1]
        if len(cores) == len(line) == 1:
            return [replace(cores[0], count=cores[0].count or line[0].count)]
        return cores or line

    def _speed(self, cluster: CoreCluster, precision: str) -> float:
        core = self.cores.get(cluster.core) or self.lines[cluster.core]
        gain = core.get(precision, 1.0) if precision in _NARROW else 1.0
        gain = max(1.0, gain / 2) if precision == "int8" else gain  # half of it goes into packing
        cores: float = float(cluster.count or _CORES) ** _SHARED
        return core["ops"] * gain * (cluster.clock or core["ghz"]) * 1e9 * cores


def count_of(text: str) -> int:
    """Return a number of cores; 0 where there is none."""
    found = _COUNT.search(text)
    if found:
        return int(next(filter(None, found.groups())))
    return next((number for word, number in _NUMERALS.items() if word in text.split()), 0)


def _read_clusters(text: str, names: Mapping[Name, Mapping[str, float]]) -> list[CoreCluster]:
    """Read pieces one after the other; one that has only a clock is more of the cores before it.

    Beside clusters with a number, one without has a single core.
    """
    found: list[CoreCluster] = []
    for piece in _PIECES.split(text):
        name = longest_name(split_words(piece), names)
        clock = _CLOCK.search(piece)
        if name is None and not (clock and found):
            continue
        ghz = float(clock[1]) / (1 if clock[2] == "g" else 1000) if clock else 0.0
        one = CoreCluster(name or found[-1].core, count_of(piece), ghz)
        same = next((index for index, other in enumerate(found) if _same_cores(one, other)), None)
        if same is None:
            found.append(one)
        else:
            other = found[same]
            found[same] = replace(other, count=other.count or one.count, clock=other.clock or one.clock)
    instance = _INSTANCE.search(text)
    unsaid = (
        _instance_cores(instance) if instance else int(len(found) > 1 and any(one.count for one in found))
    )
    return [replace(one, count=one.count or unsaid) for one in found]


def _same_cores(one: CoreCluster, other: CoreCluster) -> bool:
    """Say whether cores are merely named again: a cluster of its own has another clock, or all is said."""
    whole = one.count and one.clock and other.count and other.clock
    apart = one.clock and other.clock and one.clock != other.clock
    return one.core == other.core and not whole and not apart


def _instance_cores(size: re.Match[str]) -> int:
    """Return the cores of a rented machine: two threads share one, but where the processor is ARM's."""
    threads = {"medium": 2, "large": 2, "xlarge": 4 * int(size[2] or 1)}[size[3]]
    return threads if "g" in size[1][2:] or size[1] == "a1" else max(threads // 2, 1)


def _parse_chip(chip: str) -> list[CoreCluster]:
    found = [match for part in chip.split("+") if (match := _CLUSTER.fullmatch(part))]
    return [CoreCluster(tuple(match[1].split()), int(match[2]), float(match[3])) for match in found]
