"""What is wrong with a Pipeline before anything of it is made: its graph, its names, its paths. Pure."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

from fairlead.pipeline.check import Problem, check_structure
from fairlead.pipeline.spec import StageRole
from fairlead.pipelineobjects.names import LOCAL, LONGEST_HOST, LONGEST_NAME
from fairlead.pipelineobjects.resource import HostGroup, PipelineResource
from fairlead.units import parse_bytes

_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_OBJECT: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_WRITTEN: Final = ("jsonl", "file", "video")
"""Sinks that write below a path."""
_OWN: Final = "a Pipeline can name nothing outside its namespace: write the name alone"


def check_resource(resource: PipelineResource) -> list[Problem]:
    """Return everything that is wrong with a resource and needs no code to be seen."""
    problems = [*_check_names(resource), *_check_hosts(resource)]
    problems += [] if _has_unknown_host(problems) else check_structure(resource.spec)
    return [*problems, *_check_paths(resource)]


def describe(problems: Iterable[Problem]) -> str:
    """Return problems as the message of a condition: the first with what to do, and how many more."""
    first, *more = problems
    hint = f": {first.hint}" if first.hint else ""
    rest = "; ".join(each.what for each in more[:3])
    left = f" (and {len(more) - 3} more)" if len(more) > 3 else ""
    return f"{first.what}{hint}" + (f"; also: {rest}{left}" if more else "")


def _check_names(resource: PipelineResource) -> Iterator[Problem]:
    where = "metadata.name"
    if not _LABEL.fullmatch(resource.name) or len(resource.name) > LONGEST_NAME:
        hint = f"use at most {LONGEST_NAME} of a-z, 0-9 and '-', and begin with a letter"
        yield Problem(where, f"{resource.name!r} cannot be the name of a Service", hint)
    for field, name in _names_of_objects(resource):
        if name and not _OBJECT.fullmatch(name):
            hint = _OWN if "/" in name or ":" in name else "write the name of an object of this namespace"
            yield Problem(field, f"{field}: {name!r} is no name of an object", hint)


def _names_of_objects(resource: PipelineResource) -> Iterator[tuple[str, str]]:
    """Yield every field that names an object of the namespace."""
    if resource.files:
        yield "files.configMap", resource.files.config_map
    yield "stateClaim", resource.state_claim
    for name in resource.pull_secrets:
        yield "imagePullSecrets", name
    for group in (resource.local, *resource.hosts):
        where = LOCAL if group is resource.local else f"hosts[{group.name}]"
        yield f"{where}.dataClaim", group.data_claim
        yield f"{where}.tlsSecret", group.tls_secret


def _check_hosts(resource: PipelineResource) -> Iterator[Problem]:
    names = [group.name for group in resource.hosts]
    for index, name in enumerate(names):
        where = f"hosts[{index}]"
        if name == LOCAL or not _LABEL.fullmatch(name) or len(name) > LONGEST_HOST:
            hint = f"use at most {LONGEST_HOST} of a-z, 0-9 and '-'; local is the coordinator's pod"
            yield Problem(where, f"host {name!r} is not a name", hint)
        if name in names[:index]:
            yield Problem(where, f"two hosts are named {name}", "rename one of them")
    for stage in resource.spec.stages:
        if stage.on != LOCAL and stage.on not in names:
            near = get_close_matches(stage.on, names, 1)
            known = f"hosts: {', '.join(names)}" if names else "add it to hosts, or leave out on"
            hint = f"did you mean {near[0]}?" if near else known
            yield Problem("stages", f"stage {stage.name}: no host is {stage.on!r}", hint)
    for group in (resource.local, *resource.hosts):
        yield from _check_share(group)
    yield from _check_secrets(resource)


def _check_share(group: HostGroup) -> Iterator[Problem]:
    share = group.accelerator
    if share is None:
        return
    where = f"hosts[{group.name}].accelerator"
    try:
        if not parse_bytes(share.memory) > 0:
            raise ValueError("a share needs some")
    except ValueError as error:
        what = f"host {group.name}: accelerator.memory: {share.memory!r}: {error}"
        yield Problem(where, what, "write for example 2Gi")
    if share.compute is not None and not 1 <= share.compute <= 100:
        what = f"host {group.name}: accelerator.compute: {share.compute} is no percentage"
        yield Problem(where, what, "write 1 to 100")


def _check_secrets(resource: PipelineResource) -> Iterator[Problem]:
    """Certificates of two authorities refuse each other."""
    hosts = resource.used_hosts if resource.plan is None else resource.hosts  # a plan may use any of them
    groups = (resource.local, *hosts)
    lacking = [group.name for group in groups if not group.tls_secret]
    if hosts and 0 < len(lacking) < len(groups):
        which = "every host with a stage" if resource.plan is None else "every host"
        what = f"tlsSecret is not stated for {', '.join(lacking)}"
        yield Problem("hosts", what, f"state it for {which} and for local, or for none")


def _has_unknown_host(problems: Iterable[Problem]) -> bool:
    return any(each.where == "stages" for each in problems)


def _check_paths(resource: PipelineResource) -> Iterator[Problem]:
    for stage in resource.spec.stages:
        path = stage.options.get("path")
        if stage.role is not StageRole.SINK or stage.target not in _WRITTEN or not isinstance(path, str):
            continue
        if not path.startswith(("/data/", "/tmp/")):  # noqa: S108 - the path in a pod, an emptyDir of its own
            what = f"stage {stage.name}: path {path!r} is not in a folder that a pod can write to"
            yield Problem("stages", what, f"write /data/{path.rpartition('/')[2]}")
