"""The pod and the container of a process, from /proc/PID/cgroup.

Every runtime and both cgroup drivers put the uid of the pod and the id of the container into the path, for
cgroup versions 1 and 2. A reader in a cgroup namespace of its own sees a path that starts with `..`.

A process may name the cgroups below its own as it likes, so the outermost pod of a path counts, and only
below parents that this node's kubelet makes: where the reader's own pod is.
"""

import re
from enum import Enum
from typing import Final, NamedTuple

_UID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"
"""The second is the uid of a static pod."""
_SLICE_UID: Final = r"[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}|[0-9a-f]{32}"
_ID: Final = r"[0-9a-f]{64}"
_LINE: Final = re.compile(r"[0-9]{1,9}:[^:/]*:(/.*)")
_DELETED: Final = " (deleted)"
_POD: Final = re.compile(rf"pod({_UID})")
_POD_SLICE: Final = re.compile(
    rf"((?:kubelet-)?kubepods(?:-besteffort|-burstable)?)-pod({_SLICE_UID})\.slice"
)
_JOINED: Final = re.compile(
    rf"kubepods(?:-besteffort|-burstable)?-pod({_SLICE_UID})\.slice:(?:cri-containerd|crio|docker):({_ID})"
)
"""A runtime with the driver cgroupfs below a kubelet with the driver systemd."""
_CONTAINER: Final = re.compile(rf"({_ID})|crio-({_ID})|(?:cri-containerd|crio|docker|libpod)-({_ID})\.scope")
_QOS: Final = frozenset({"besteffort", "burstable"})
_ROOTS: Final = frozenset({"kubepods", ".."})
_SLICES: Final = re.compile(r"(?:kubelet-)?kubepods(?:-besteffort|-burstable)?\.slice")
_USERS: Final = "user.slice"
_HINTS: Final = ("kubepods", "kubelet")


class PodContainer(NamedTuple):
    """A container of a pod."""

    pod: str
    """The pod's uid."""
    container: str
    """The container's id; empty for a process of the pod outside its containers."""


class NoPod(Enum):
    """A process that is in no pod, as far as its cgroups say."""

    FOREIGN = "foreign"
    """It belongs to no pod."""
    UNCLEAR = "unclear"
    """Its cgroups look like those of a pod, but are in no known form."""


def kubelet_root(text: str) -> tuple[str, ...]:
    """Return what is above the kubelet's cgroups, from the /proc/self/cgroup of a pod; empty if unknown."""
    for path in _paths(text):
        parts = path.split("/")
        for at, part in enumerate(parts):
            if part == "kubepods" or _SLICES.fullmatch(part) or _JOINED.fullmatch(part):
                return tuple(parts[:at])
    return ()


def owner(text: str, root: tuple[str, ...] = ()) -> PodContainer | NoPod:
    """Return the pod and container of a process; `text` is its /proc/PID/cgroup.

    `root` is what is above the kubelet's cgroups, where that is known.
    """
    lines = _paths(text)
    owners = [_owner(line, root) for line in lines]
    inside = {found for found in owners if isinstance(found, PodContainer)}
    pods = {found.pod for found in inside}
    if len(pods) == 1:
        ids = {found.container for found in inside if found.container}
        return PodContainer(pods.pop(), ids.pop() if len(ids) == 1 else "")
    unclear = bool(pods) or NoPod.UNCLEAR in owners or not lines
    return NoPod.UNCLEAR if unclear else NoPod.FOREIGN


def _paths(text: str) -> list[str]:
    lines = [match[1] for line in text.split("\n") if (match := _LINE.fullmatch(line))]
    return [line.removesuffix(_DELETED).strip("/") for line in lines]


def _owner(path: str, root: tuple[str, ...]) -> PodContainer | NoPod:
    parts = path.split("/")
    if _USERS in parts and _USERS not in root:
        return NoPod.FOREIGN  # a user may name the cgroups of a session as it likes
    for at, part in enumerate(parts):
        joined = _JOINED.fullmatch(part)
        if joined and _trusted(parts[:at], root):
            return PodContainer(_dashed(joined[1]), joined[2])
        pod = _pod(parts, at, root)
        if pod:
            following = parts[at + 1] if at + 1 < len(parts) else ""
            container = _CONTAINER.fullmatch(following)
            return PodContainer(pod, next(filter(None, container.groups())) if container else "")
    looks_like_pod = any(hint in path for hint in _HINTS) or any(map(_POD.fullmatch, parts))
    return NoPod.UNCLEAR if looks_like_pod else NoPod.FOREIGN


def _pod(parts: list[str], at: int, root: tuple[str, ...]) -> str:
    """Return the uid of the pod that one part of a path names; empty where a kubelet did not make it."""
    plain, in_slice = _POD.fullmatch(parts[at]), _POD_SLICE.fullmatch(parts[at])
    above = parts[:at]
    if in_slice:
        while above and _SLICES.fullmatch(above[-1]):
            above = above[:-1]
        made = len(above) < at or (above and above[-1] == "..")
        return _dashed(in_slice[2]) if made and _trusted(above, root) else ""
    if not plain:
        return ""
    if above and above[-1] in _QOS:
        above = above[:-1]
    if not above or above[-1] not in _ROOTS:
        return ""
    return plain[1] if _trusted(above[:-1], root) else ""


def _trusted(above: list[str], root: tuple[str, ...]) -> bool:
    """Say whether the kubelet's cgroups are there: a container with another root may name its own alike."""
    outside = [part for part in above if part != ".."]
    return not outside or (tuple(above) == root)


def _dashed(uid: str) -> str:
    return uid.replace("_", "-")
