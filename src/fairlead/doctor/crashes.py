"""The check for programs of ours that do not stay up: a container that crashes, or never starts."""

from typing import Final

from fairlead.doctor.finding import CheckResult, count, fail, ok, some, warn
from fairlead.doctor.view import PROGRAMS, ClusterView, ContainerStatus, Pod, full_name

RECENT: Final = 600.0
"""Seconds after which a restart is no longer reported: the container has run since."""
_STARTING: Final = ("", "ContainerCreating", "PodInitializing")
"""Waiting reasons of a container that is about to start."""
_LONGEST: Final = 300
"""Characters of a container's last message."""


def crashes(view: ClusterView) -> list[CheckResult]:
    """Report the containers of ours that crash or never start, with their last message."""
    down: dict[tuple[str, str, str], list[Pod]] = {}
    restarted: dict[tuple[str, str, str], list[Pod]] = {}
    for component in PROGRAMS:
        for pod in view.component(component):
            for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
                failure = _failure(container)
                if failure:
                    down.setdefault((component, container.name, failure), []).append(pod)
                elif _is_recent(view, container):
                    restarted.setdefault((component, container.name, _end(container)), []).append(pod)
    results = [
        fail(_text(*key, pods), _todo(key[1], pods[0])) for key, pods in sorted(down.items(), key=_first)
    ]
    results += [
        warn(_text(*key, pods), _todo(key[1], pods[0])) for key, pods in sorted(restarted.items(), key=_first)
    ]
    return results or [ok("every container of ours stays up")]


def _failure(container: ContainerStatus) -> str:
    """Return why a container does not run; empty where it runs, has finished, or is about to start."""
    waiting, ended = container.state.waiting, container.state.terminated
    if waiting.reason not in _STARTING:
        return _with(
            f"{waiting.reason}{_restarts(container)}",
            container.last_state.terminated.message or waiting.message,
        )
    if ended.exit_code:
        return _with(f"ended with exit code {ended.exit_code}{_restarts(container)}", ended.message)
    return ""


def _is_recent(view: ClusterView, container: ContainerStatus) -> bool:
    ended = container.last_state.terminated
    return bool(container.restart_count and ended.finished_at) and view.age(ended.finished_at) < RECENT


def _end(container: ContainerStatus) -> str:
    ended = container.last_state.terminated
    why = ended.reason if ended.reason not in ("", "Error") else f"exit code {ended.exit_code}"
    return _with(f"restarted after {why}{_restarts(container)}", ended.message)


def _restarts(container: ContainerStatus) -> str:
    number = container.restart_count
    return f", {number} restart{'' if number == 1 else 's'}" if number else ""


def _with(text: str, message: str) -> str:
    message_text = " ".join(message.split())
    return f"{text}: {message_text[-_LONGEST:]}" if message_text else text


def _text(component: str, container: str, failure: str, pods: list[Pod]) -> str:
    label = component if container == component else f"{component}, container {container}"
    return f"{label}: {count(pods, 'pod')} ({some(full_name(pod) for pod in pods)}) {failure}"


def _todo(container: str, pod: Pod) -> str:
    place = f"-n {pod.metadata.namespace} {pod.metadata.name} -c {container}"
    return f"kubectl logs {place} --previous; correct what it names, and run helm upgrade"


def _first(row: tuple[tuple[str, str, str], list[Pod]]) -> tuple[str, str, str]:
    return row[0]
