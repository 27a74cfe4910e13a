"""The check of programs of ours that do not stay up: a container that crashes, or that never starts."""

from typing import Final

from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import PROGRAMS, ClusterView, ContainerStatus, Pod, full_name

RECENT: Final = 600.0
"""Seconds after which a restart is no longer told: the container has run since."""
_STARTING: Final = ("", "ContainerCreating", "PodInitializing")
"""Reasons of containers that wait for nothing but their turn."""
_LONGEST: Final = 300
"""Characters of what a container said last."""


def crashes(sight: ClusterView) -> list[CheckResult]:
    """Say which containers of ours crash or never start, and what they said last."""
    down: dict[tuple[str, str, str], list[Pod]] = {}
    restarted: dict[tuple[str, str, str], list[Pod]] = {}
    for component in PROGRAMS:
        for pod in sight.component(component):
            for each in (*pod.status.init_container_statuses, *pod.status.container_statuses):
                trouble = _failure(each)
                if trouble:
                    down.setdefault((component, each.name, trouble), []).append(pod)
                elif _is_recent(sight, each):
                    restarted.setdefault((component, each.name, _end(each)), []).append(pod)
    said = [fail(_text(*key, pods), _todo(key[1], pods[0])) for key, pods in sorted(down.items(), key=_first)]
    said += [
        warn(_text(*key, pods), _todo(key[1], pods[0])) for key, pods in sorted(restarted.items(), key=_first)
    ]
    return said or [ok("every container of ours stays up")]


def _failure(each: ContainerStatus) -> str:
    """Return why a container does not run; empty where it runs, has done its work, or is about to start."""
    waiting, ended = each.state.waiting, each.state.terminated
    if waiting.reason not in _STARTING:
        return _with(
            f"{waiting.reason}{_restarts(each)}", each.last_state.terminated.message or waiting.message
        )
    if ended.exit_code:
        return _with(f"ended with exit code {ended.exit_code}{_restarts(each)}", ended.message)
    return ""


def _is_recent(sight: ClusterView, each: ContainerStatus) -> bool:
    ended = each.last_state.terminated
    return bool(each.restart_count and ended.finished_at) and sight.age(ended.finished_at) < RECENT


def _end(each: ContainerStatus) -> str:
    ended = each.last_state.terminated
    why = ended.reason if ended.reason not in ("", "Error") else f"exit code {ended.exit_code}"
    return _with(f"restarted after {why}{_restarts(each)}", ended.message)


def _restarts(each: ContainerStatus) -> str:
    number = each.restart_count
    return f", {number} restart{'' if number == 1 else 's'}" if number else ""


def _with(text: str, message: str) -> str:
    last = " ".join(message.split())
    return f"{text}: {last[-_LONGEST:]}" if last else text


def _text(component: str, container: str, trouble: str, pods: list[Pod]) -> str:
    whose = component if container == component else f"{component}, container {container}"
    return f"{whose}: {count(pods, 'pod')} ({some(full_name(pod) for pod in pods)}) {trouble}"


def _todo(container: str, pod: Pod) -> str:
    place = f"-n {pod.metadata.namespace} {pod.metadata.name} -c {container}"
    return f"kubectl logs {place} --previous; correct what it names, and helm upgrade"


def _first(row: tuple[tuple[str, str, str], list[Pod]]) -> tuple[str, str, str]:
    return row[0]
