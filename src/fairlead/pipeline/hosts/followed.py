"""Whether a run can carry out what its file says now: the file is read, and the hosts are asked."""

from collections.abc import Callable

from fairlead.errors import FairleadError
from fairlead.pipeline.check import check_structure
from fairlead.pipeline.hosts.ask import ask_hosts
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.replan.follower import ChangeFailure, FollowedFile, Verdict, digest_of
from fairlead.pipeline.replan.following import ChangeRefusal, live_change, with_known_ports
from fairlead.pipeline.spec import PipelineSpec
from fairlead.pipeline.yaml_file import parse_pipeline


def judge_change(
    file: FollowedFile,
    data: bytes,
    tls: HostTlsFiles | None,
    require_allowed: Callable[[PipelineSpec], None],
) -> Verdict:
    """Return what a new text of a file leads to; `require_allowed` raises for hosts that may not be used.

    Only the stages that move are loaded, each where it will be; sinks of the run have their files open.
    """
    try:
        new = parse_pipeline(data, file.spec.path)
        if problems := check_structure(new):
            return ChangeRefusal(f"{problems[0].where}: {problems[0].what}")
        change = live_change(file.spec, new)
        if isinstance(change, ChangeRefusal):
            return change
        require_allowed(new)
    except FairleadError as error:
        return ChangeRefusal(str(error))
    merged = with_known_ports(new, file.running, change.stages)
    answers = ask_hosts(merged, tls, change.stages)
    if answers.problems:
        return ChangeFailure(answers.problems[0].what)
    for name in change.stages:
        if answers.spec.stage(name).is_stateful != file.running.stage(name).is_stateful:
            return ChangeFailure(f"stage {name} keeps state in one of its versions alone")
    return FollowedFile(digest_of(data), new, answers.spec)
