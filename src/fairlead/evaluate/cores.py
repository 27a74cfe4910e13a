"""Read the cores of a processor from a description: `Cortex-A76 2.4GHz x 4 + Cortex-A55 1.8GHz x 4`."""

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
"""The cores of a processor whose description has no number."""
_SHARED: Final = 0.7
"""N cores do the work of N to this power: they share caches, memory and small layers."""
_NARROW: Final = ("int8", "fp16")


@dataclass(frozen=True, slots=True)
class CoreCluster:
    """Cores of one kind; 0 where their number, or their clock in GHz, is not given."""

    core: Name
    count: int = 0
    clock: float = 0.0


@dataclass(frozen=True, slots=True)
class Processors:
    """Data sheets of cores, and the cores of each chip."""

    cores: Mapping[Name, Mapping[str, float]]
    """Operations per cycle, usual clock, and the gain of narrow numbers."""
    lines: Mapping[Name, Mapping[str, float]]
    """The same for product lines, such as Xeon, where the cores themselves are not named."""
    chips: Mapping[Name, str]

    def ops(self, device: str, precision: str) -> float | None:
        """Add up the cores; where a description lacks clocks or counts, the chip's data sheet counts."""
        clusters = self.clusters(device)
        words = split_words(device)
        chip = look_up(words, self.chips) or look_up([word.rstrip("+") for word in words], self.chips)
        if chip is not None and not (
            clusters and all(cluster.count and cluster.clock for cluster in clusters)
        ):
            clusters = _parse_chip(chip)
        return sum(self._speed(cluster, precision) for cluster in clusters) or None

    def clusters(self, device: str) -> list[CoreCluster]:
        """Return the named clusters; without any, the processor of a product line."""
        text = normalise(device)
        cores, line = _read_clusters(text, self.cores), _read_clusters(text, self.lines)[:1]
        if len(cores) == len(line) == 1:
            return [replace(cores[0], count=cores[0].count or line[0].count)]
        return cores or line

    def _speed(self, cluster: CoreCluster, precision: str) -> float:
        core = self.cores.get(cluster.core) or self.lines[cluster.core]
        gain = core.get(precision, 1.0) if precision in _NARROW else 1.0
        gain = max(1.0, gain / 2) if precision == "int8" else gain  # packing takes half of it
        cores: float = float(cluster.count or _CORES) ** _SHARED
        return core["ops"] * gain * (cluster.clock or core["ghz"]) * 1e9 * cores


def count_of(text: str) -> int:
    """Return a number of cores; 0 where there is none."""
    match = _COUNT.search(text)
    if match:
        return int(next(filter(None, match.groups())))
    return next((number for word, number in _NUMERALS.items() if word in text.split()), 0)


def _read_clusters(text: str, names: Mapping[Name, Mapping[str, float]]) -> list[CoreCluster]:
    """Read pieces one after the other; a piece with only a clock is a further cluster of the previous cores.

    Beside clusters with a number, a cluster without one has a single core.
    """
    clusters: list[CoreCluster] = []
    for piece in _PIECES.split(text):
        name = longest_name(split_words(piece), names)
        clock = _CLOCK.search(piece)
        if name is None and not (clock and clusters):
            continue
        ghz = float(clock[1]) / (1 if clock[2] == "g" else 1000) if clock else 0.0
        cluster = CoreCluster(name or clusters[-1].core, count_of(piece), ghz)
        same = next((index for index, other in enumerate(clusters) if _same_cores(cluster, other)), None)
        if same is None:
            clusters.append(cluster)
        else:
            other = clusters[same]
            clusters[same] = replace(
                other, count=other.count or cluster.count, clock=other.clock or cluster.clock
            )
    instance = _INSTANCE.search(text)
    default = (
        _instance_cores(instance)
        if instance
        else int(len(clusters) > 1 and any(cluster.count for cluster in clusters))
    )
    return [replace(cluster, count=cluster.count or default) for cluster in clusters]


def _same_cores(one: CoreCluster, other: CoreCluster) -> bool:
    """Say whether two clusters are the same cores: a distinct one has another clock, or all its figures."""
    whole = one.count and one.clock and other.count and other.clock
    apart = one.clock and other.clock and one.clock != other.clock
    return one.core == other.core and not whole and not apart


def _instance_cores(size: re.Match[str]) -> int:
    """Return the cores of a cloud instance: two threads share a core, except on ARM processors."""
    threads = {"medium": 2, "large": 2, "xlarge": 4 * int(size[2] or 1)}[size[3]]
    return threads if "g" in size[1][2:] or size[1] == "a1" else max(threads // 2, 1)


def _parse_chip(chip: str) -> list[CoreCluster]:
    matches = [match for part in chip.split("+") if (match := _CLUSTER.fullmatch(part))]
    return [CoreCluster(tuple(match[1].split()), int(match[2]), float(match[3])) for match in matches]
