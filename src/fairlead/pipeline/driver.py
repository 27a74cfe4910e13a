"""Run a pipeline: start its processes, join them, and do what the coordinator decides."""

import os
import selectors
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from fairlead.errors import PipelineFailedError
from fairlead.pipeline import run_events as decide
from fairlead.pipeline.checkpoints import CheckpointStore
from fairlead.pipeline.coordinator import Coordinator
from fairlead.pipeline.endpoints.sources import SOURCES
from fairlead.pipeline.frame import boottime
from fairlead.pipeline.fuse import LinkPlan, RunPlan, place_workers
from fairlead.pipeline.observe.trace_file import TraceFile
from fairlead.pipeline.place import LOCAL, LinkOpener, LocalPlace, Place, PlaceEvents, Positions
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.replan.moves import MovePlanner, RunMoves, hosts_of
from fairlead.pipeline.spec import StageRole
from fairlead.pipeline.state.folder import StateFolder
from fairlead.pipeline.state.kept_run import KeptRun
from fairlead.pipeline.status import RunStatus
from fairlead.pipeline.worker_settings import link_joins, ring_join, worker_settings
from fairlead.units import Bytes

_TICK: Final = 0.25
_SESSIONS: Final = 1 << 20
"""Links that one coordinator makes, at most: those of the next one have other names."""
StatusCallback = Callable[[dict[str, Any]], None]


class OtherHosts(Protocol):
    """The other machines of a run; only a run with hosts needs them, and hpack with them."""

    @property
    def replayable(self) -> Mapping[str, bool]:
        """By source on another host: whether it can be read again."""
        ...

    @property
    def links(self) -> LinkOpener:
        """What makes links from this machine."""
        ...

    def open(self, selector: selectors.BaseSelector, events: PlaceEvents) -> Mapping[str, Place]:
        """Connect with every host, and return them by name."""
        ...

    def close(self) -> None:
        """End every connection."""
        ...


class PipelineDriver:
    """One run of a pipeline."""

    def __init__(
        self,
        plan: RunPlan,
        log: Callable[[str], None],
        on_status: StatusCallback,
        trace: TraceFile | None = None,
        hosts: OtherHosts | None = None,
        state: StateFolder | None = None,
        planner: MovePlanner | None = None,
    ) -> None:
        """Take what prints lines and receives counters and spans; hosts, a folder, and what plans moves."""
        self._log = log
        self._on_status = on_status
        self._trace = trace
        self._publish_at = 0.0
        sources = readable_again(plan, hosts.replayable if hosts is not None else {})
        self._replayable = all(sources.values()) and all(stage.ordered for stage in plan.spec.stages)
        self._coordinator = Coordinator(plan, replayable=self._replayable)
        self._status = RunStatus(plan, boottime())
        self._checkpoints = CheckpointStore()
        self._kept = (
            KeptRun(state, plan, log, sources=sources, replayable=self._replayable) if state else None
        )
        self._selector = selectors.DefaultSelector()
        self._hosts = hosts
        held = (state.lock,) if state is not None else ()
        local = LocalPlace(self._selector, self, hosts.links if hosts is not None else None, held)
        others = hosts.open(self._selector, self) if hosts is not None else {}
        self._places: dict[str, Place] = {LOCAL: local, **others}
        self._planner = planner
        self._moves = RunMoves(boottime())
        self._open_links: dict[LinkPlan, str] = {}
        """The sessions of links between hosts."""
        self._sessions = state.record.attempt * _SESSIONS if state is not None else 0
        self._numbers: dict[int, int] = {}
        """By stream: the number that comes next."""
        self._plans = {worker.name: plan for worker in plan.workers}
        """By worker: the plan for which it was first started."""
        self._paths = 0
        self._finished: decide.FinishRun | None = None

    def run(self, stop: socket.socket | None = None) -> dict[str, Any]:
        """Run until the end and return the last status; PipelineFailedError if the pipeline failed.

        `stop` is readable when the user wants the run to end.
        """
        if stop is not None:
            self._selector.register(stop, selectors.EVENT_READ, lambda: self._on_stop(stop))
        try:
            if self._kept is not None:
                self._kept.fill(self._checkpoints)
            self._perform(self._coordinator.begin(self._kept.first_frames if self._kept else None))
            while self._finished is None:
                self._step()
            self._keep(self._finished)
        finally:
            self._end_all()
        if self._finished.failure:
            raise PipelineFailedError(self._finished.failure, self._finished.hint)
        return self._document()

    def _step(self) -> None:
        for key, _ in self._selector.select(_TICK):
            key.data()
        memory: dict[str, Bytes] = {}
        for place in self._places.values():
            place.tick()
            memory.update(place.memory())
        is_moving = len(self._coordinator.plans) > 1
        sinks = _sequences(self._positions()) if is_moving else {}
        labels = self._checkpoints.labels() if is_moving else {}
        self._handle(decide.ClockTick(self._calls(), memory, sinks, labels))
        if boottime() >= self._publish_at:  # not with every report: the status has all workers in it
            self._publish_at = boottime() + _TICK
            self._count_links()
            document = self._document()
            self._on_status(document)
            self._propose(document)
        if self._kept is not None and self._kept.is_due:
            self._keep()

    def _keep(self, finished: decide.FinishRun | None = None) -> None:
        """Keep how far the run has come."""
        if self._kept is None:
            return
        positions = self._positions()
        starts = self._first_lost(positions) if self._replayable else self._next_numbers()
        if finished is None:
            self._kept.update(starts, positions, self._checkpoints)
        else:
            done = not (finished.failure or finished.drained)
            self._kept.finish(starts, positions, self._checkpoints, done=done)

    def _positions(self) -> Positions:
        """Return what the sinks of all places have taken."""
        return {name: at for place in self._places.values() for name, at in place.positions().items()}

    def _propose(self, document: Mapping[str, Any]) -> None:
        """Let stages move if that pays now."""
        if self._planner is None or not self._coordinator.can_move:
            return
        now = boottime()
        proposed = self._planner.propose(document, now)
        if proposed is not None:
            plan = self._coordinator.plan
            self._paths += 1
            moved = place_workers(plan, proposed.nodes, self._paths)
            self._plans |= {worker.name: moved for worker in moved.workers if worker.name not in self._plans}
            self._log(self._moves.begin(plan, moved, proposed, now))
            self._handle(decide.MoveRequested(moved))

    def _first_lost(self, positions: Positions) -> Mapping[int, int]:
        """Return by stream the frame with which a replay would begin now."""
        return self._coordinator.replay_from(_sequences(positions), self._checkpoints.labels())

    def _next_numbers(self) -> Mapping[int, int]:
        """Return by stream the number behind the last frame that a source has read."""
        for name, call in self._calls().items():
            self._note_number(name, call)
        return self._numbers

    def _note_number(self, worker: str, call: WorkedOn) -> None:
        if self._plan_of(worker).is_source(worker):
            self._numbers[call.stream] = call.sequence + bool(call.sequence or call.since)

    def _calls(self) -> dict[str, WorkedOn]:
        """Return what the running workers of all places are in."""
        return {name: call for place in self._places.values() for name, call in place.calls().items()}

    def _count_links(self) -> None:
        """Count what was dropped before links, which no worker has seen."""
        for name, place in self._places.items():
            if edges := place.edge_counts():
                self._status.on_report(f"links of {name}", {"stages": {}, "edges": edges}, boottime())

    def _on_stop(self, stop: socket.socket) -> None:
        stop.recv(64)
        self._handle(decide.StopRequested())

    def _handle(self, event: decide.RunEvent) -> None:
        self._perform(self._coordinator.handle(event, boottime()))

    def _document(self) -> dict[str, Any]:
        others = {name: place.status() for name, place in self._places.items() if name != LOCAL}
        body = self._status.document(boottime(), self._calls()) | {"pid": os.getpid()}
        body["open"] = self._coordinator.is_open
        body |= self._places[LOCAL].status() | {"moves": self._moves.document()}
        return body | {"hosts": others} if others else body

    def on_message(self, worker: str, message: Mapping[str, Any]) -> None:
        """Take what a worker says."""
        if message["event"] == "report":
            self._status.on_report(worker, message, boottime())
        elif message["event"] == "spans":
            if self._trace is not None:
                self._trace.write(worker, message["spans"], message["left_out"])
        elif message["event"] == "log":
            self._log(message["line"])
        elif message["event"] == "ready":
            self._handle(decide.WorkerReady(worker))
        elif message["event"] == "done":
            has_state = self._checkpoints.count_final(worker) == message["states"]
            self._handle(decide.WorkerDone(worker, message["epoch"], has_state))
        elif message["event"] == "checkpoint":
            self._on_checkpoint(worker, message)
        elif message["event"] == "joined":
            self._handle(decide.PathJoined(worker, message["edge"], message["path"]))
        elif message["event"] == "switched":
            ends = (worker, message["edge"], message["path"], message["sequence"])
            self._handle(decide.PathSwitched(*ends))
        elif message["event"] == "failed":
            self._handle(decide.WorkerFailed(worker, message["line"]))

    def _on_checkpoint(self, worker: str, message: Mapping[str, Any]) -> None:
        key = (worker, message["stage"], message["stream"])
        if message["before"] is None:
            self._checkpoints.add_final(key, message["state"])
        else:
            acknowledged = self._acknowledged(message["stream"])
            self._checkpoints.add(key, message["before"], message["state"], acknowledged)

    def on_exit(self, worker: str, how: str, at: WorkedOn) -> None:
        """Take note of a worker that has ended."""
        self._note_number(worker, at)
        positions, labels = self._positions(), self._checkpoints.labels()
        self._handle(decide.WorkerExited(worker, how, at, _sequences(positions), labels))

    def _acknowledged(self, stream: int) -> int:
        """Return the first frame of a stream that a sink may lack."""
        plan, taken = self._coordinator.plan, self._positions()
        sinks = [each for each in plan.workers if each.stages[-1].role is StageRole.SINK]
        reached = [each.name for each in sinks if stream in plan.streams_of(each.name)]
        return min((taken.get(name, {}).get(stream, (0, 0))[0] for name in reached), default=0)

    def _place_of(self, worker: str) -> Place:
        return self._places[self._plan_of(worker).worker(worker).host]

    def _plan_of(self, worker: str) -> RunPlan:
        """Return the plan that has a worker: that of now, or another one for which it was started."""
        plan = self._coordinator.plan
        return plan if any(each.name == worker for each in plan.workers) else self._plans[worker]

    def _tell(self, worker: str, message: dict[str, Any]) -> None:
        self._place_of(worker).tell(worker, message)

    def _perform(self, effects: list[decide.RunEffect]) -> None:
        for effect in effects:
            match effect:
                case decide.SpawnWorker():
                    self._spawn(effect)
                case decide.JoinWorkers():
                    self._join(effect.link)
                case decide.StartEpoch():
                    self._restore(effect.worker, effect.epoch, effect.start)
                    message = {"do": "epoch", "epoch": effect.epoch, "start": effect.start}
                    self._tell(effect.worker, message)
                case decide.StartSource():
                    if self._kept is not None:
                        self._kept.begin()
                    self._tell(effect.worker, {"do": "start"})
                case decide.DrainSource():
                    self._tell(effect.worker, {"do": "drain"})
                case decide.EndWorker():
                    self._tell(effect.worker, {"do": "end"})
                case decide.KillWorker():
                    self._place_of(effect.worker).kill(effect.worker)
                case decide.LogLine():
                    self._log(effect.line)
                case decide.FinishRun():
                    self._finished = effect
                case _:
                    self._perform_move(effect)

    def _perform_move(self, effect: decide.MoveEffect) -> None:
        match effect:
            case decide.HandOverState():
                self._tell(effect.worker, {"do": "hand_over"})
            case decide.SwitchPath():
                self._tell(effect.worker, {"do": "switch", "edge": effect.edge})
            case decide.CommitPaths():
                self._tell(effect.worker, {"do": "commit"})
            case decide.CancelPaths():
                self._tell(effect.worker, {"do": "cancel"})
            case decide.CarryState():
                old, new = (self._plan_of(each).place_of(effect.stage, each) for each in effect.ends)
                self._checkpoints.carry(old, new, effect.sequence)
            case decide.DropLink():
                session = self._open_links.pop(effect.link, "")
                for place in self._places.values() if session else ():
                    place.drop_link(session)
            case decide.AdoptPlan():
                self._status.on_plan(effect.plan)
                if self._kept is not None:
                    self._kept.on_plan(effect.plan)
            case decide.MoveEnded():
                self._on_move_ended(effect)

    def _on_move_ended(self, effect: decide.MoveEnded) -> None:
        now = boottime()
        self._log(self._moves.end(effect.done, effect.sequence, effect.reason, now))
        if self._planner is not None:
            nodes = hosts_of(self._coordinator.plan) if effect.done else None
            self._planner.on_move_ended(nodes, now)

    def _spawn(self, effect: decide.SpawnWorker) -> None:
        self._status.on_spawn(effect.worker)
        place = self._place_of(effect.worker)
        known = place.positions().get(effect.worker) or (
            self._kept.known(effect.worker) if self._kept is not None and effect.resume else {}
        )
        restores = self._checkpoints.at(effect.worker, effect.start, latest=not self._replayable)
        settings = worker_settings(
            self._plan_of(effect.worker),
            effect,
            replayable=self._replayable,
            trace_every=self._trace.every if self._trace is not None else 0,
        )
        place.spawn(effect.worker, settings | {"restores": len(restores)}, known)
        self._restore(effect.worker, effect.epoch, effect.start)

    def _restore(self, worker: str, epoch: int, start: Mapping[int, int]) -> None:
        """Hand a worker the checkpoints that its stages go on from."""
        for stage, stream, state in self._checkpoints.at(worker, start, latest=not self._replayable):
            message = {"do": "restore", "epoch": epoch, "stage": stage, "stream": stream}
            self._place_of(worker).restore(worker, message, state)
        if self._replayable:
            self._checkpoints.drop_after(worker, start)

    def _join(self, link: LinkPlan) -> None:
        """Make a ring for a link on one host, or both ends of a link between two."""
        plan = next(plan for plan in self._coordinator.plans if link in plan.links)
        start, end = plan.worker(link.sender).host, plan.worker(link.receiver).host
        if start == end:
            self._places[start].join_ring(ring_join(plan, link))
            return
        self._sessions += 1
        self._open_links[link] = str(self._sessions)
        first, last = link_joins(plan, link, str(self._sessions))
        self._places[end].open_link(last)
        self._places[start].open_link(first)

    def _end_all(self) -> None:
        """Leave no process behind, whatever has happened here."""
        self._count_links()
        if self._planner is not None:
            self._planner.close()
        if self._kept is not None:
            self._kept.close()
        for place in self._places.values():
            place.close()
        if self._hosts is not None:
            self._hosts.close()
        self._selector.close()


def readable_again(plan: RunPlan, known: Mapping[str, bool]) -> dict[str, bool]:
    """Return by source whether it can be read again; `known`: what is known already."""
    spec = plan.spec
    return {
        stage.name: known[stage.name]
        if stage.name in known
        else SOURCES[stage.target].open(stage.options, spec.folder).replayable
        for stage in spec.sources
    }


def _sequences(positions: Positions) -> dict[str, dict[int, int]]:
    return {name: {stream: at[0] for stream, at in taken.items()} for name, taken in positions.items()}
