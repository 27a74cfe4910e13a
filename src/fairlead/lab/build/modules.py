"""The parts of a lab that are built with Go: their programs, pinned modules and build flags."""

import hashlib
import json
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.units import Bytes, parse_bytes

Version = tuple[int, ...]

_GO_LINE: Final = re.compile(r"^go (\d+(?:\.\d+)*)", re.MULTILINE)
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "armv6l": "arm"}
_KUBERNETES_STAMPS: Final = (
    ("gitVersion", "{version}"),
    ("gitMajor", "{major}"),
    ("gitMinor", "{minor}"),
    ("gitTreeState", "clean"),
    ("gitCommit", "none"),
    ("buildDate", "1970-01-01T00:00:00Z"),
)


@dataclass(frozen=True, slots=True)
class GoModule:
    """One Go module below `lab/`, and the programs that it builds."""

    name: str
    """The module's folder below `lab/`."""
    programs: tuple[str, ...]
    pin: str
    """The required module whose version is this part's version."""
    disk: Bytes
    """The peak disk use of a build from scratch: sources, and every object file twice, in Go's build cache
    and in its working folder."""
    target: str = "tool"
    """The argument of `go build`: `tool` for go.mod's tool lines, `.` for a main.go of our own."""
    binary: str = ""
    """The multi-call binary that is every program, chosen by argv[0]; empty: one binary per program."""
    stamps: tuple[tuple[str, str], ...] = ()
    """Variables set by the linker; `{version}`, `{bare}`, `{major}` and `{minor}` come from the pin."""
    tags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Files of the pinned module that the programs need when they run."""
    library: str = ""
    """The C library to link, by pkg-config's name; empty: a build without cgo."""


PARTS: Final = (
    GoModule(
        name="kube",
        programs=(
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-proxy",
            "kube-scheduler",
            "kubectl",
            "kubelet",
        ),
        pin="k8s.io/kubernetes",
        disk=parse_bytes("9GiB"),
        target=".",
        binary="kube",
        stamps=tuple(
            (f"{package}.{name}", value)
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
            for name, value in _KUBERNETES_STAMPS
        ),
    ),
    GoModule(
        name="kwok",
        programs=("kwok",),
        pin="sigs.k8s.io/kwok",
        disk=parse_bytes("3GiB"),
        stamps=(("sigs.k8s.io/kwok/pkg/consts.Version", "{version}"),),
        # kwok refuses to start without stages. Its own come with the pin, so they never drift from it.
        files=(
            "kustomize/stage/node/chaos/node-not-ready.yaml",
            "kustomize/stage/node/fast/node-initialize.yaml",
            "kustomize/stage/node/heartbeat/node-heartbeat.yaml",
            "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
            "kustomize/stage/pod/chaos/pod-container-running-failed.yaml",
            "kustomize/stage/pod/fast/pod-complete.yaml",
            "kustomize/stage/pod/fast/pod-delete.yaml",
            "kustomize/stage/pod/fast/pod-ready.yaml",
        ),
    ),
    GoModule(
        name="node",
        programs=("containerd", "containerd-shim-runc-v2", "ctr"),
        pin="github.com/containerd/containerd/v2",
        disk=parse_bytes("3GiB"),
        stamps=(("github.com/containerd/containerd/v2/version.Version", "{bare}"),),
        # Snapshotters that need C libraries or devices; the lab uses overlayfs.
        tags=("no_btrfs", "no_devmapper", "no_zfs"),
    ),
    GoModule(
        name="dns",
        programs=("coredns",),
        pin="github.com/coredns/coredns",
        disk=parse_bytes("3GiB"),
        target=".",
        binary="coredns",
    ),
    GoModule(
        name="runc",
        programs=("runc",),
        pin="github.com/opencontainers/runc",
        disk=parse_bytes("1GiB"),
        tags=("seccomp", "netgo", "osusergo", "urfave_cli_no_docs"),
        library="libseccomp",
    ),
    GoModule(
        name="deploy",
        programs=("helm",),
        pin="helm.sh/helm/v4",
        disk=parse_bytes("3GiB"),
        stamps=(("helm.sh/helm/v4/internal/version.version", "{version}"),),
    ),
    GoModule(
        name="monitor",
        programs=("prometheus", "promtool"),
        pin="github.com/prometheus/prometheus",
        disk=parse_bytes("4GiB"),
        # Without the service discovery of every cloud. Debian's package leaves out Kubernetes instead.
        tags=("remove_all_sd", "enable_kubernetes_sd"),
    ),
    # In no profile: only `make cel-table` builds it.
    GoModule(
        name="cel",
        programs=("cel-oracle",),
        pin="k8s.io/dynamic-resource-allocation",
        disk=parse_bytes("2GiB"),
        target=".",
        binary="cel-oracle",
    ),
)


def sources() -> Path:
    """Return the folder of the Go modules: inside the installed package, or `lab/` of a checkout."""
    lab = Path(__file__).parents[1]
    for folder in (lab / "go", lab.parents[2] / "lab"):
        if (folder / "toolchain.txt").is_file():
            return folder
    raise LabError(
        "this installation has no Go modules for the lab",
        hint="run from a checkout of fairlead, or from an environment that has its wheel installed",
    )


def parse_version(text: str) -> Version:
    """Parse `1.26.0` into integers that compare."""
    return tuple(int(number) for number in text.split("."))


def required_go(folder: Path) -> Version:
    """Return the oldest Go that a module's go.mod allows."""
    match = _GO_LINE.search(_read(folder / "go.mod"))
    if match is None:
        raise LabError(f"{folder / 'go.mod'}: no go directive", hint="add one, like: go 1.26.0")
    return parse_version(match[1])


def pinned_version(part: GoModule, folder: Path) -> str:
    """Return the version that a part's go.mod pins, like `v1.37.1`."""
    path = folder / "go.mod"
    match = re.search(rf"^(?:require)?\s*{re.escape(part.pin)} (v\S+)", _read(path), re.MULTILINE)
    if match is None:
        raise LabError(f"{path}: {part.pin} is not required", hint=f"go get {part.pin}@VERSION")
    return match[1]


def flags(part: GoModule, version: str) -> list[str]:
    """Return the flags of `go build` for a part at a version."""
    bare = version.removeprefix("v")
    major, minor = bare.split(".")[:2]
    stamps = [
        f"-X {name}={value.format(version=version, bare=bare, major=major, minor=minor)}"
        for name, value in part.stamps
    ]
    # -buildvcs=false: the commit of the surrounding checkout says nothing about these programs.
    static = ["-linkmode external", "-extldflags -static"] if part.library else []
    chosen = ["-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *static, *stamps])]
    return [*chosen, "-tags", ",".join(part.tags)] if part.tags else chosen


def architecture() -> str:
    """Return Go's name of this machine's architecture."""
    machine = platform.machine()
    if not sys.platform.startswith("linux"):
        raise LabError(
            f"the lab runs on Linux only, this is {sys.platform}",
            hint="use a virtual machine, or the kubeconfig of another cluster",
        )
    return _ARCHITECTURES.get(machine, machine)


def key(part: GoModule, folder: Path, go: Version) -> str:
    """Return the cache key of a part: it changes exactly when the build's output would.

    It holds Go's release (1.26), not the patch: patches come monthly, machines differ in theirs, and none
    changes what a test sees. To rebuild Kubernetes for each would cost ten minutes a month.
    """
    pins = {
        "part": [part.name, *part.programs, part.target, part.binary, *part.files],
        "flags": flags(part, pinned_version(part, folder)),
        "go": list(go[:2]),
        "machine": ["linux", architecture()],
        "sources": {path.name: path.read_text(encoding="utf-8") for path in _sources(folder)},
    }
    digest = hashlib.sha256(json.dumps(pins, sort_keys=True).encode()).hexdigest()
    return f"{part.name}-{digest[:12]}"


def _sources(folder: Path) -> Iterator[Path]:
    """Yield every file that `go build` reads in a module: its pins and its own code."""
    yield folder / "go.mod"
    yield folder / "go.sum"
    yield from (path for path in sorted(folder.glob("*.go")) if not path.name.endswith("_test.go"))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(
            f"{path}: {error.strerror}", hint="the checkout is incomplete: git checkout -- lab"
        ) from error
