"""`fairlead pipeline run`: a pipeline to its end, or on from where an earlier run was."""

import argparse
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from fairlead.cli.output.terminal import show_error
from fairlead.cli.pipeline import follow, hosts, replan
from fairlead.cli.pipeline.run_output import RunOutput, add_run_options
from fairlead.errors import PipelineFailedError, SettingsError

if TYPE_CHECKING:
    from fairlead.pipeline.replan.follower import FileFollower
    from fairlead.pipeline.replan.moves import MovePlanner
    from fairlead.pipeline.spec import PipelineSpec
    from fairlead.pipeline.state.folder import StateFolder


def add(verbs: Any) -> None:
    """Add the command."""
    run = verbs.add_parser(
        "run",
        help="run a pipeline to its end",
        description="Run a pipeline until its sources end. SIGINT or SIGTERM lets frames on their way "
        "finish; a second one ends the run at once.",
    )
    run.add_argument("file", metavar="FILE", help="the pipeline, in YAML")
    run.add_argument(
        "--state",
        metavar="DIR",
        help="keep the progress of the run in a folder: what sinks have taken, and the states of stages",
    )
    run.add_argument("--resume", action="store_true", help="go on with the run whose progress --state holds")
    replan.add_options(run)
    follow.add_options(run)
    add_run_options(run)
    hosts.add_patience(run)
    hosts.add_tls(run)
    run.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from fairlead.pipeline.check import require_sound
    from fairlead.pipeline.driver import PipelineDriver
    from fairlead.pipeline.fuse import plan_workers
    from fairlead.pipeline.malloc import keep_freed_memory
    from fairlead.pipeline.replan.following import inner_stages
    from fairlead.pipeline.yaml_file import parse_pipeline, read_text
    from fairlead.signals import stop_signals

    if options.resume and options.state is None:
        raise SettingsError(
            "--resume needs --state DIR", "name the folder that holds the progress of the run"
        )
    replan.check_options(options)
    follow.check_options(options)
    keep_freed_memory(os.environ)
    text = read_text(options.file)
    of_file = parse_pipeline(text, options.file)
    spec = require_sound(of_file)
    with ExitStack() as stack:
        state = stack.enter_context(_open_state(options, spec)) if options.state is not None else None
        if state is not None and state.is_done:
            show_error(f"fairlead: {options.state}: this run is done; there is nothing to go on with")
            return 0
        moves = replan.prepare(spec, options) if options.replan else None
        placed, candidates = (spec, ()) if moves is None else (moves.spec, moves.candidates)
        placed, others = hosts.open_hosts(placed, options, state, candidates)
        movable = inner_stages(placed) if options.follow and placed.is_chain else frozenset()
        plan = plan_workers(placed, movable if moves is None else moves.movable)
        output = stack.enter_context(RunOutput(options, plan))
        stop = stack.enter_context(stop_signals())
        planner: MovePlanner | FileFollower | None = None if moves is None else moves.planner
        if options.follow:
            planner = follow.make_follower(options, text, of_file, placed, output.log)
        driver = PipelineDriver(plan, output.log, output.on_status, output.trace, others, state, planner)
        try:
            output.finish(driver.run(stop))
        except PipelineFailedError as error:
            raise PipelineFailedError(f"{options.file}: {error}", error.hint) from None
    return 0


def _open_state(options: argparse.Namespace, spec: "PipelineSpec") -> "StateFolder":
    from fairlead.pipeline.replan.following import inner_stages
    from fairlead.pipeline.state.folder import open_state

    free = inner_stages(spec) if options.follow else frozenset()  # the file may have changed since
    return open_state(
        options.state,
        spec,
        resume=options.resume,
        log=lambda line: show_error(f"fairlead: {line}"),
        free=free,
    )
