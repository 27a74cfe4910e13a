"""The frame of `pipeline top`: each stage with its times, below it the edges that leave it; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.cli.live.keys import SpecialKey
from fairlead.cli.live.loop import KeyEffect
from fairlead.cli.live.paint import Glyphs, Piece, Style, StyledLine, clip_line, pad
from fairlead.cli.live.terminal import Size
from fairlead.compat import StrEnum
from fairlead.units import format_duration, pluralize

HELP: Final = (
    ("up, down, j, k", "scroll"),
    ("s", "sort the stages: graph, busy, rate, dropped"),
    ("p", "pause, or go on"),
    ("h", "this help; any key closes it"),
    ("q", "quit"),
)
"""Each key, and what it does."""
_KEYS: Final = "q quit  s sort  p pause  j/k scroll  h help"
_NAME: Final = 16
_RATE: Final = 8
_BAR: Final = 10
_FIGURE: Final = 7
_NOTHING: Final = "-"
_MILLI: Final = 0.001
_SHORT: Final = 0.01
_NEARLY_ALL: Final = 0.9
_HEAD: Final = (
    f"{'STAGE':{_NAME}} {'RATE':>{_RATE}} {'BUSY':{_BAR + 7}} {'PROCESS':>{_FIGURE}} {'P99':>{_FIGURE}} "
    f"{'WAITS':>5} {'BLOCK':>5} {'FRAMES':>8}"
)
Document = Mapping[str, Any]


class StageOrder(StrEnum):
    """The order of the stages."""

    GRAPH = "graph"
    """As the file has them."""
    BUSY = "busy"
    RATE = "rate"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class GraphControls:
    """What the user has chosen."""

    order: StageOrder = StageOrder.GRAPH
    first: int = 0
    """The line of the graph at the top of the screen."""
    paused: bool = False
    help: bool = False


_MOVES: Final = {
    "k": -1,
    SpecialKey.UP: -1,
    "j": 1,
    SpecialKey.DOWN: 1,
    SpecialKey.PAGE_UP: -10,
    SpecialKey.PAGE_DOWN: 10,
}


def press(controls: GraphControls, key: str, lines: int) -> tuple[GraphControls, KeyEffect]:
    """Return the controls after a key, and what the loop does; `lines` is the length of the graph."""
    if key in ("q", "Q"):
        return controls, KeyEffect.QUIT
    if controls.help:
        return replace(controls, help=False), KeyEffect.NONE
    if key in _MOVES:
        return replace(controls, first=max(0, min(lines - 1, controls.first + _MOVES[key]))), KeyEffect.NONE
    if key == "s":
        order = list(StageOrder)
        after = order[(order.index(controls.order) + 1) % len(order)]
        return replace(controls, order=after, first=0), KeyEffect.NONE
    if key == "p":
        return replace(controls, paused=not controls.paused), KeyEffect.NONE
    return replace(controls, help=key in ("h", "?")), KeyEffect.NONE


def graph_frame(
    status: Document, size: Size, controls: GraphControls, glyphs: Glyphs
) -> tuple[StyledLine, ...]:
    """Return the lines of one frame: at most `size.rows`, each at most `size.columns` cells wide."""
    foot: StyledLine = (Piece(_KEYS, Style.DIM),)
    if controls.help:
        body = [(Piece("fairlead pipeline top: keys", Style.HEAD),), ()]
        body += [(Piece(f"  {key:15}", Style.HEAD), Piece(text)) for key, text in HELP]
    else:
        graph = graph_lines(status, controls.order, glyphs)
        body = [_title(status, controls), (Piece(_HEAD, Style.HEAD),), *graph[controls.first :]]
    space = max(0, size.rows - 1)
    lines = [*body[:space], *([()] * (space - len(body))), foot][-size.rows :] if size.rows > 0 else []
    return tuple(clip_line(line, size.columns, glyphs.more) for line in lines)


def text_lines(status: Document, glyphs: Glyphs) -> list[StyledLine]:
    """Return everything in one page, without keys: for a pipe, `--once`, or a terminal without a cursor."""
    graph = graph_lines(status, StageOrder.GRAPH, glyphs)
    return [_title(status, GraphControls()), (Piece(_HEAD, Style.HEAD),), *graph]


def graph_lines(status: Document, order: StageOrder, glyphs: Glyphs) -> list[StyledLine]:
    """Return a line for each stage, and below it one for each edge that leaves it."""
    lines: list[StyledLine] = []
    batches = {stage["name"]: stage["batch"]["size"] for stage in status["stages"] if stage.get("batch")}
    scaled = {each["stage"]: each for each in status.get("scaling", ())}
    for stage in _ordered(status, order):
        limits = stage["name"] == status["bottleneck"]
        lines.append(_stage_line(stage, scaled.get(stage["name"]), limits, glyphs))
        leaving = (edge for edge in status["edges"] if edge["from"] == stage["name"])
        lines += [_edge_line(edge, batches.get(edge["to"]), glyphs) for edge in leaving]
        inner = (edge for edge in status["fused"] if edge["from"] == stage["name"])
        lines += [(Piece(f"  -> {edge['to']}  in the same process", Style.DIM),) for edge in inner]
    return lines


def _ordered(status: Document, order: StageOrder) -> Sequence[Document]:
    stages: Sequence[Document] = status["stages"]
    if order is StageOrder.GRAPH:
        return stages
    if order is StageOrder.DROPPED:
        lost = {stage["name"]: 0 for stage in stages}
        for edge in status["edges"]:
            lost[edge["from"]] += sum(edge["dropped"].values())
        return sorted(stages, key=lambda stage: -lost[stage["name"]])
    return sorted(stages, key=lambda stage: -float(stage[order.value]))


def _title(status: Document, controls: GraphControls) -> StyledLine:
    sinks = [each for each in status["stages"] if each["role"] == "sink"]
    dropped = sum(sum(edge["dropped"].values()) for edge in status["edges"])
    taken = pluralize(sum(each["out"] for each in sinks), "frame")
    rate = _rate(sum(each["rate"] for each in sinks))
    pieces = [
        Piece("pipeline top", Style.HEAD),
        Piece(f"  {status['pipeline']}  {format_duration(status['seconds'])}  {taken}  {rate}"),
    ]
    if dropped:
        pieces.append(Piece(f"  {dropped} dropped", Style.WARN))
    if restarts := sum(each["restarts"] for each in status["stages"]):
        pieces.append(Piece(f"  {pluralize(restarts, 'restart')}", Style.BAD))
    if moves := len(status.get("moves", ())):
        pieces.append(Piece(f"  {pluralize(moves, 'move')}", Style.WARN))
    if status["bottleneck"]:
        pieces.append(Piece("  * bottleneck", Style.WARN))
    if controls.order is not StageOrder.GRAPH:
        pieces.append(Piece(f"  by {controls.order.value}", Style.HEAD))
    return (*pieces, *([Piece("  PAUSED", Style.WARN)] if controls.paused else []))


def _stage_line(stage: Document, scaled: Document | None, limits: bool, glyphs: Glyphs) -> StyledLine:
    process = stage["times"]["process"]
    replicas = f" x{len(stage['workers'])}" if len(stage["workers"]) > 1 or scaled else ""
    replicas += f"/{scaled['max']}" if scaled else ""
    name = f"{stage['name']}{replicas}{' *' if limits else ''}"
    style = Style.WARN if limits else Style.HEAD
    busy = float(stage["busy"])
    figures = (
        f"{_duration(_mean(process)):>{_FIGURE}} {_duration(process['p99']):>{_FIGURE}} "
        f"{stage['waiting']:>5.0%} {stage['blocked']:>5.0%} {stage['out']:>8}"
    )
    pieces = [
        Piece(pad(name, _NAME, glyphs.more), style),
        Piece(f" {_rate(stage['rate']):>{_RATE}} "),
        *_bar(busy, busy >= _NEARLY_ALL, glyphs),
        Piece(f" {busy:>4.0%} {figures}"),
    ]
    if scaled and scaled["held_by"]:
        pieces.append(Piece(f" {scaled['held_by']}", Style.WARN))
    for version in stage.get("versions") or ():
        if version["version"] == "canary":
            pieces.append(Piece(f" canary {version['percent']}%", Style.WARN))
    others = [host for host in stage.get("hosts", ()) if host != "local"]
    if others:
        pieces.append(Piece(f" on {', '.join(others)}", Style.DIM))
    troubles = [(stage["failed"], "failed"), (stage["restarts"], "restarted")]
    return (*pieces, *(Piece(f" {number} {what}", Style.BAD) for number, what in troubles if number))


def _edge_line(edge: Document, batch: int | None, glyphs: Glyphs) -> StyledLine:
    held, size = edge["depth"], max(1, edge["size"])
    full = held >= size
    drops = ", ".join(f"{number} {reason}" for reason, number in edge["dropped"].items() if number)
    pieces = [
        Piece(pad(f"  -> {edge['to']}", _NAME, glyphs.more)),
        Piece(f" {_rate(edge['rate']):>{_RATE}} "),
        *_bar(min(1.0, held / size), full, glyphs),
        Piece(f" {held}/{edge['size']} ".ljust(6)),
        Piece(f"age {_duration(edge['age'])}", Style.DIM),
        *([Piece(f", batch {batch}")] if batch else []),
        *([Piece(f", dropped {drops}", Style.WARN)] if drops else []),
    ]
    return (*pieces, Piece(f", {edge['policy']}", Style.DIM))


def _bar(share: float, full: bool, glyphs: Glyphs) -> StyledLine:
    cells = round(share * _BAR)
    pieces = (Piece(glyphs.full * cells, Style.WARN if full else Style.GOOD),)
    return (Piece("["), *pieces, Piece(glyphs.free * (_BAR - cells), Style.FREE), Piece("]"))


def _rate(rate: float) -> str:
    return f"{rate:.0f}/s" if rate >= 1000 else f"{rate:.1f}/s"


def _duration(seconds: float | None) -> str:
    """Return a time that may be shorter than a millisecond: `46us`, `1.2ms`."""
    if seconds is None:
        return _NOTHING
    if seconds < _MILLI:
        return f"{seconds * 1e6:.0f}us"
    return f"{seconds * 1e3:.1f}ms" if seconds < _SHORT else format_duration(seconds)


def _mean(times: Document) -> float | None:
    return times["sum"] / times["count"] if times["count"] else None
