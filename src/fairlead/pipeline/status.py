"""What a running pipeline is doing: counters of workers, summed by stage and edge."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from fairlead.pipeline.fuse import RunPlan, WorkerPlan
from fairlead.pipeline.observe.bottleneck import bottleneck
from fairlead.pipeline.observe.histogram import BOUNDS, describe, empty_times
from fairlead.pipeline.observe.window import Report, ReportWindow
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.spec import EdgeSpec, StageSpec

_GAUGES: Final = ("depth", "age", "batch")
_SHARES: Final = {"waiting": "receive", "blocked": "send"}
"""The shares of a process's time, by the durations that make them up."""
Sums = dict[str, dict[str, dict[str, Any]]]


class RunStatus:
    """The counters of a run."""

    def __init__(self, plan: RunPlan, now: float) -> None:
        self._plan = plan
        self._crossed = {link.edge.name for link in plan.links}
        """Edges that are or were between processes."""
        self._began = now
        self._ended: Sums = {"stages": {}, "edges": {}}
        """What the processes that are no more have counted."""
        self._reports: dict[str, Report] = {}
        self._windows: dict[str, ReportWindow] = {}
        self._lives: Counter[str] = Counter()

    def on_plan(self, plan: RunPlan) -> None:
        """Take the plan of a run whose stages have moved."""
        self._plan = plan
        self._crossed |= {link.edge.name for link in plan.links}

    def on_spawn(self, worker: str) -> None:
        """Count a new process of a worker; what its predecessor has counted stays."""
        self._lives[worker] += 1
        _add_report(self._ended, self._reports.pop(worker, {}), gauges=False)
        self._windows[worker] = ReportWindow()

    def on_report(self, worker: str, report: Report, now: float) -> None:
        """Take the counters since its start of a worker, or of what carries frames between workers."""
        self._reports[worker] = report
        self._windows.setdefault(worker, ReportWindow()).add(report, now)

    def document(
        self,
        now: float,
        calls: Mapping[str, WorkedOn] = MappingProxyType({}),
        placed: Sequence[WorkerPlan] = (),
    ) -> dict[str, Any]:
        """Return everything that has been counted, and the rates of the last seconds.

        `calls` is what workers are in, by name, where it is known; `placed` are the processes that are there,
        also old ones that are being drained.
        """
        sums = self._sums()
        spec = self._plan.spec
        stages = [
            self._stage(stage, sums["stages"][stage.name], now, calls)
            | {"places": _places(stage, placed or self._plan.workers)}
            for stage in spec.stages
        ]
        between = [edge for edge in spec.edges if edge.name in sums["edges"]]
        return {
            "pipeline": spec.name,
            "file": spec.path,
            "seconds": now - self._began,
            "bottleneck": bottleneck(stages),
            "bounds": list(BOUNDS),
            "stages": stages,
            "edges": [self._edge(edge, sums["edges"][edge.name], now) for edge in between],
            "fused": [{"from": edge.source, "to": edge.target} for edge in spec.edges if edge not in between],
        }

    def _stage(
        self, stage: StageSpec, sums: dict[str, Any], now: float, calls: Mapping[str, WorkedOn]
    ) -> dict[str, Any]:
        workers = [each.name for each in self._plan.workers if stage in each.stages]
        windows = [self._windows[name] for name in workers if name in self._windows]
        entry = {
            "name": stage.name,
            "role": str(stage.role),
            "workers": workers,
            "hosts": list(dict.fromkeys(self._plan.worker(name).host for name in workers)),
            "restarts": sum(self._lives[name] - 1 for name in workers if self._lives[name]),
            "rate": _total_rate(windows, lambda report: report["stages"][stage.name]["out"], now),
        }
        for share, kind in _SHARES.items():
            entry[share] = min(1.0, _total_rate(windows, _seconds_of(stage, kind), now) / len(workers))
        spent = _seconds_of(stage, "process")
        busy = [
            self._windows[name].busy(spent, now, self._call_since(name, stage, calls))
            for name in workers
            if name in self._windows
        ]
        entry["busy"] = min(1.0, sum(busy) / len(workers))
        if stage.canary is not None:
            entry["versions"] = self._versions(stage, stage.canary.percent)
        return entry | sums | {"times": describe(sums["times"])}

    def _versions(self, stage: StageSpec, percent: int) -> list[dict[str, Any]]:
        """Return what the replicas of a stage have counted since they began, and what its canary has."""
        workers = [each for each in self._plan.workers if stage in each.stages]
        return [
            {"version": name, "percent": percent if name == "canary" else 100 - percent}
            | self._counted(stage, [each for each in workers if bool(each.share) == (name == "canary")])
            for name in ("stable", "canary")
        ]

    def _counted(self, stage: StageSpec, workers: Sequence[WorkerPlan]) -> dict[str, Any]:
        names = [each.name for each in workers]
        reports = [self._reports[name]["stages"][stage.name] for name in names if name in self._reports]
        process = [each["times"]["process"] for each in reports]
        return {
            "places": _places(stage, workers),
            "in": sum(each["in"] for each in reports),
            "failed": sum(each["failed"] for each in reports),
            "restarts": sum(self._lives[name] - 1 for name in names if self._lives[name]),
            "process_s": sum(each["sum"] for each in process),
        }

    def _call_since(self, worker: str, stage: StageSpec, calls: Mapping[str, WorkedOn]) -> float:
        """Return when a worker entered the call of a stage that it is in; 0: it is in none."""
        call, stages = calls.get(worker), self._plan.worker(worker).stages
        return call.since if call is not None and stages[min(call.stage, len(stages) - 1)] == stage else 0.0

    def _edge(self, edge: EdgeSpec, sums: dict[str, Any], now: float) -> dict[str, Any]:
        receivers = {link.receiver for link in self._plan.links if link.edge == edge}
        windows = [self._windows[name] for name in receivers if name in self._windows]
        entry = {
            "from": edge.source,
            "to": edge.target,
            "policy": str(edge.contract),
            "size": edge.contract.depth,
            "max_age": edge.contract.max_age,
            "rate": _total_rate(windows, lambda report: report["edges"][edge.name]["taken"], now),
            "drop_rate": _total_rate([*self._windows.values()], _drops_of(edge), now),
        }
        return entry | sums | {"times": describe(sums["times"])}

    def _sums(self) -> Sums:
        sums: Sums = {
            "stages": {
                stage.name: {
                    "in": 0,
                    "out": 0,
                    "failed": 0,
                    "dropped": {},
                    "batch": None,
                    "times": empty_times("receive", "process", "send"),
                }
                for stage in self._plan.spec.stages
            },
            "edges": {
                name: {
                    "sent": 0,
                    "received": 0,
                    "taken": 0,
                    "dropped": {},
                    "depth": 0,
                    "age": 0.0,
                    "times": empty_times("send", "receive", "age"),
                }
                for name in self._crossed
            },
        }
        for report in (self._ended, *self._reports.values()):
            _add_report(sums, report, gauges=True)
        return sums


def _places(stage: StageSpec, placed: Sequence[WorkerPlan]) -> list[dict[str, str]]:
    """Return where the processes of a stage are, the places of the plan first."""
    names = {(each.host, each.address): None for each in placed if _has(each, stage)}
    return [{"host": host, "address": address} for host, address in names]


def _has(worker: WorkerPlan, stage: StageSpec) -> bool:
    return any(each.name == stage.name for each in worker.stages)


def _total_rate(windows: Sequence[ReportWindow], value: Callable[[Report], float], now: float) -> float:
    return sum(window.rate(value, now) for window in windows)


def _seconds_of(stage: StageSpec, kind: str) -> Callable[[Report], float]:
    """Return the function that reads from a report how long a stage has received, processed or sent."""
    return lambda report: float(report["stages"][stage.name]["times"][kind]["sum"])


def _drops_of(edge: EdgeSpec) -> Callable[[Report], float]:
    """Return the function that reads from a report how many frames an edge has dropped there."""
    return lambda report: sum(report["edges"].get(edge.name, {}).get("dropped", {}).values())


def _add_report(sums: Sums, report: Report, *, gauges: bool) -> None:
    for kind, entries in sums.items():
        for name, counts in report.get(kind, {}).items():
            kept = {key: value for key, value in counts.items() if gauges or key not in _GAUGES}
            _add(entries.setdefault(name, {}), kept)


def _add(sums: dict[str, Any], counts: Mapping[str, Any]) -> None:
    for key, value in counts.items():
        if key == "batch":  # of replicas, the largest
            known = sums.get(key) or value
            sums[key] = {name: max(known[name], each) for name, each in value.items()}
        elif isinstance(value, Mapping):
            _add(sums.setdefault(key, {}), value)
        elif isinstance(value, list):
            sums[key] = [a + b for a, b in zip(sums.get(key, [0] * len(value)), value, strict=True)]
        elif key == "age":
            sums[key] = max(sums.get(key, 0.0), value)
        else:
            sums[key] = sums.get(key, 0) + value
