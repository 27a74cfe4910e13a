"""Run a pipeline: start its processes, join them, and do what the coordinator decides."""

import os
import selectors
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead.errors import PipelineFailedError
from fairlead.pipeline import run_events as decide
from fairlead.pipeline.checkpoints import CheckpointStore
from fairlead.pipeline.coordinator import Coordinator
from fairlead.pipeline.decide.replay import replay_from
from fairlead.pipeline.endpoints.sources import SOURCES
from fairlead.pipeline.frame import boottime
from fairlead.pipeline.fuse import LinkPlan, RunPlan, place_workers, replace_spec
from fairlead.pipeline.observe.trace_file import TraceFile
from fairlead.pipeline.place import Place, Positions
from fairlead.pipeline.places import OtherHosts, RunPlaces
from fairlead.pipeline.progress import WorkedOn
from fairlead.pipeline.replan.follower import FileFollower
from fairlead.pipeline.replan.following import with_present_replicas
from fairlead.pipeline.replan.moves import MovePlanner, ProposedMove, RunMoves, hosts_of
from fairlead.pipeline.replan.scaling import RunScaling, with_replicas
from fairlead.pipeline.spec import StageRole
from fairlead.pipeline.state.folder import StateFolder
from fairlead.pipeline.state.kept_run import KeptRun
from fairlead.pipeline.status import RunStatus
from fairlead.pipeline.worker_settings import link_joins, ring_join, worker_settings

_TICK: Final = 0.25
_SESSIONS: Final = 1 << 20
"""Links that one coordinator makes, at most: those of the next one have other names."""
StatusCallback = Callable[[dict[str, Any]], None]


class PipelineDriver:
    """One run of a pipeline."""

    _is_file_move = False
    """The move that is under way was begun because the file has changed."""

    def __init__(
        self,
        plan: RunPlan,
        log: Callable[[str], None],
        on_status: StatusCallback,
        trace: TraceFile | None = None,
        hosts: OtherHosts | None = None,
        state: StateFolder | None = None,
        planner: MovePlanner | FileFollower | None = None,
    ) -> None:
        """Take what prints lines and receives counters and spans; hosts, a folder, and what moves stages."""
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
        held = (state.lock,) if state is not None else ()
        self._places = RunPlaces(hosts, self._selector, self, held)
        self._follower = planner if isinstance(planner, FileFollower) else None
        self._planner = None if isinstance(planner, FileFollower) else planner
        self._moves = RunMoves(boottime())
        self.scaling = RunScaling()
        """What lets replicas follow the load; to be replaced before the run, if at all."""
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
        memory = self._places.tick()
        is_moving = len(self._coordinator.plans) > 1
        sinks = _sequences(self._places.positions()) if is_moving else {}
        labels = self._checkpoints.labels() if is_moving else {}
        self._handle(decide.ClockTick(self._places.calls(), memory, sinks, labels))
        if boottime() >= self._publish_at:  # not with every report: the status has all workers in it
            self._publish_at = boottime() + _TICK
            self._count_links()
            self._follow()
            document = self._document()
            self._on_status(document)
            self._propose(document)
        if self._kept is not None and self._kept.is_due:
            self._keep()

    def _keep(self, finished: decide.FinishRun | None = None) -> None:
        """Keep how far the run has come."""
        if self._kept is None:
            return
        positions = self._places.positions()
        starts = self._first_lost(positions) if self._replayable else self._next_numbers()
        if finished is None:
            self._kept.update(starts, positions, self._checkpoints)
        else:
            done = not (finished.failure or finished.drained)
            self._kept.finish(starts, positions, self._checkpoints, done=done)

    def _propose(self, document: Mapping[str, Any]) -> None:
        """Let stages move if that pays now."""
        if not self._coordinator.can_move:
            return
        now, plan = boottime(), self._coordinator.plan
        proposed = self._planner.propose(document, now) if self._planner is not None else None
        if proposed is not None:
            self._begin_move(place_workers(plan, proposed.nodes, self._paths + 1), proposed)
        elif (change := self.scaling.propose(document, plan.spec, now)) is not None:
            self.scaling.begin(change)
            scaled = replace_spec(plan, with_replicas(plan.spec, change), self._paths + 1)
            self._begin_move(scaled, ProposedMove({}, change.reason))

    def _follow(self) -> None:
        """Let the run become what its file says, as soon as that can be."""
        if self._follower is None:
            return
        self._follower.observe(boottime())
        if (spec := self._follower.wanted) is not None:
            plan = self._coordinator.plan
            plan = replace_spec(plan, with_present_replicas(spec, plan.spec), self._paths + 1)
            if self._coordinator.can_adopt(plan):
                self._is_file_move = True
                self._follower.begin()
                self._begin_move(plan, ProposedMove({}, f"{spec.path} has changed"))
        self._places.leave(self._coordinator.plans)

    def _begin_move(self, moved: RunPlan, proposed: ProposedMove) -> None:
        self._paths += 1
        self._plans |= {worker.name: moved for worker in moved.workers if worker.name not in self._plans}
        if line := self._moves.begin(self._coordinator.plan, moved, proposed, boottime()):
            self._log(line)
        self._places.connect(moved)
        sinks = _sequences(self._places.positions())
        self._handle(decide.MoveRequested(moved, sinks, self._checkpoints.labels()))

    def _first_lost(self, positions: Positions) -> Mapping[int, int]:
        """Return by stream the frame with which a replay would begin now."""
        return replay_from(self._coordinator.plan, _sequences(positions), self._checkpoints.labels())

    def _next_numbers(self) -> Mapping[int, int]:
        """Return by stream the number behind the last frame that a source has read."""
        for name, call in self._places.calls().items():
            self._note_number(name, call)
        return self._numbers

    def _note_number(self, worker: str, call: WorkedOn) -> None:
        if self._plan_of(worker).is_source(worker):
            self._numbers[call.stream] = call.sequence + bool(call.sequence or call.since)

    def _count_links(self) -> None:
        """Count what was dropped before links, which no worker has seen."""
        for place, edges in self._places.edge_counts():
            self._status.on_report(f"links of {place}", {"stages": {}, "edges": edges}, boottime())

    def _on_stop(self, stop: socket.socket) -> None:
        stop.recv(64)
        self._handle(decide.StopRequested())

    def _handle(self, event: decide.RunEvent) -> None:
        self._perform(self._coordinator.handle(event, boottime()))

    def _document(self) -> dict[str, Any]:
        body = self._status.document(boottime(), self._places.calls(), self._coordinator.placed)
        body |= {"pid": os.getpid(), "open": self._coordinator.is_open, "moves": self._moves.document()}
        if scaled := self.scaling.document(self._coordinator.plan.spec):
            body["scaling"] = scaled
        if self._follower is not None:
            body["follow"] = self._follower.document()
        return body | self._places.status(self._coordinator.plan)

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
        positions, labels = self._places.positions(), self._checkpoints.labels()
        self._handle(decide.WorkerExited(worker, how, at, _sequences(positions), labels))

    def _acknowledged(self, stream: int) -> int:
        """Return the first frame of a stream that a sink may lack."""
        plan, taken = self._coordinator.plan, self._places.positions()
        sinks = [each for each in plan.workers if each.stages[-1].role is StageRole.SINK]
        reached = [each.name for each in sinks if stream in plan.streams_of(each.name)]
        return min((taken.get(name, {}).get(stream, (0, 0))[0] for name in reached), default=0)

    def _place_of(self, worker: str) -> Place:
        return self._places.of(self._plan_of(worker).worker(worker))

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
                if session := self._open_links.pop(effect.link, ""):
                    self._places.drop_link(session)
            case decide.AdoptPlan():
                self._status.on_plan(effect.plan)
                if self._kept is not None:
                    self._kept.on_plan(effect.plan, is_of_file=self._follower is not None)
            case decide.MoveEnded():
                self._on_move_ended(effect)

    def _on_move_ended(self, effect: decide.MoveEnded) -> None:
        now = boottime()
        if line := self._moves.end(effect.done, effect.sequence, effect.reason, now):
            self._log(line)
        self.scaling.on_move_ended(done=effect.done, now=now)
        if self._follower is not None and self._is_file_move:
            self._is_file_move = False
            self._follower.on_ended(done=effect.done, reason=effect.reason, now=now)
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
        start, end = (self._places.of(plan.worker(each)) for each in (link.sender, link.receiver))
        if start is end:
            start.join_ring(ring_join(plan, link))
            return
        self._sessions += 1
        self._open_links[link] = str(self._sessions)
        first, last = link_joins(plan, link, str(self._sessions))
        end.open_link(last)
        start.open_link(first)

    def _end_all(self) -> None:
        """Leave no process behind, whatever has happened here."""
        self._count_links()
        if self._planner is not None:
            self._planner.close()
        if self._kept is not None:
            self._kept.close()
        self._places.close()
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
