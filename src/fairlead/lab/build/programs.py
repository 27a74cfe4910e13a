"""Build the lab's missing programs, once for all clones of one user."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.compat import StrEnum
from fairlead.errors import LabError
from fairlead.lab.build import cache as caches
from fairlead.lab.build import compiler, toolchain
from fairlead.lab.build.cache import BuildCache
from fairlead.lab.build.modules import PARTS, GoModule, flags, key, pinned_version, required_go, sources
from fairlead.lab.build.toolchain import Toolchain
from fairlead.lab.run import subprocess
from fairlead.units import Seconds, parse_bytes

ROOMY: Final = parse_bytes("20GiB")
"""If this much disk is free after a build, Go's caches stay.

They hold up to 7 GB and save nine tenths of the next build, but the next build comes only when a pin
changes. So they stay on a disk with space to spare, and are dropped from a smaller one.
"""
_ASSETS: Final = "KUBEBUILDER_ASSETS"
_ASSET_PROGRAMS: Final = ("etcd", "kube-apiserver", "kubectl")
_REQUIRED: Final = re.compile(r"^\s+\S+ v\S+(?: // indirect)?$", re.MULTILINE)
_TAIL: Final = 12
# A line of the build log -> the hint of the error.
_HINTS: Final = (
    ("no space left on device", "free some space, or set XDG_CACHE_HOME to a folder on a larger disk"),
    ("signal: killed", "the machine ran out of memory: linking Kubernetes takes about 3 GB"),
    ("missing go.sum entry", "go.mod and go.sum do not match: run go mod tidy in the module"),
    ("updates to go.mod needed", "go.mod is not tidy: run go mod tidy in the module"),
    ("dial tcp", "the module proxy cannot be reached: check the network, or set GOPROXY"),
    ("i/o timeout", "the module proxy cannot be reached: check the network, or set GOPROXY"),
)


class BuildPhase(StrEnum):
    """The phase of a part's build."""

    WAIT = "wait"
    """Another process builds the same part; this one will use its result."""
    TOOLCHAIN = "toolchain"
    """Go is being fetched from PyPI."""
    FETCH = "fetch"
    """Go modules are being downloaded; counted in modules."""
    COMPILE = "compile"
    """Counted in packages; a package in Go's cache is not counted."""
    LINK = "link"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """The progress of a part's build."""

    phase: BuildPhase
    part: str
    elapsed: Seconds
    """Since the start of this part's build."""
    done: int = 0
    total: int = 0
    """The most that `done` may reach; 0 where nothing is counted."""


Report = Callable[[BuildProgress], None]


@dataclass(frozen=True, slots=True)
class BuiltPrograms:
    """The paths of the programs, and of the files that came with them."""

    paths: Mapping[str, Path]
    files: Mapping[str, Path]
    """By file name: kwok's stages, such as `node-initialize.yaml`."""

    def __getitem__(self, program: str) -> Path:
        return self.paths[program]


@dataclass(frozen=True, slots=True)
class BuildEnvironment:
    """Everything outside the code that a build depends on."""

    cache: BuildCache
    sources: Path
    parts: tuple[GoModule, ...]
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Plan:
    part: GoModule
    key: str
    go: Toolchain


@dataclass(frozen=True, slots=True)
class _Job:
    """One build: the Go to call, the part to build, and the folder to write."""

    go: Path
    part: GoModule
    source: Path
    staging: Path
    log: Path
    env: Mapping[str, str]
    report: Callable[[BuildPhase, int, int], None]


def default_environment() -> BuildEnvironment:
    """Return the environment of this process: this user's cache, and the shipped parts."""
    return BuildEnvironment(caches.default(os.environ), sources(), PARTS, os.environ)


def ensure(
    wanted: Iterable[str],
    report: Report = lambda progress: None,
    *,
    keep: bool | None = None,
    build_env: BuildEnvironment | None = None,
) -> BuiltPrograms:
    """Return the wanted programs, named by program or by part; build the missing ones.

    `keep` says whether Go's caches stay after a build; None: if the disk has ROOMY bytes free. Programs in
    KUBEBUILDER_ASSETS are used as they are.
    """
    build_env = build_env or default_environment()
    names = _names(wanted, build_env.parts)
    assets = _assets(names, build_env.environ)
    absent = names - assets.keys()
    plans = [_plan(build_env, part) for part in build_env.parts if absent.intersection(part.programs)]
    missing = [plan for plan in plans if not caches.is_complete(build_env.cache.folder(plan.key))]
    for plan in missing:
        _build(build_env, plan, report)
    if missing and not (caches.free_space(build_env.cache) >= ROOMY if keep is None else keep):
        caches.drop_go_caches(build_env.cache)
    return _collect(build_env, plans, names, assets)


def are_built(wanted: Iterable[str], *, build_env: BuildEnvironment | None = None) -> bool:
    """Return whether all of the wanted programs are there, so that `ensure` would build nothing."""
    build_env = build_env or default_environment()
    names = _names(wanted, build_env.parts)
    absent = names - _assets(names, build_env.environ).keys()
    plans = [_plan(build_env, part) for part in build_env.parts if absent.intersection(part.programs)]
    return all(caches.is_complete(build_env.cache.folder(plan.key)) for plan in plans)


def _names(wanted: Iterable[str], parts: Iterable[GoModule]) -> set[str]:
    known = {part.name: part.programs for part in parts}
    known |= {program: (program,) for part in parts for program in part.programs}
    names: set[str] = set()
    for name in wanted:
        if name not in known:
            raise LabError(f"the lab has no program {name!r}", hint=f"known: {', '.join(sorted(known))}")
        names.update(known[name])
    return names


def _assets(names: set[str], environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the wanted programs that the user's KUBEBUILDER_ASSETS folder has."""
    setting = environ.get(_ASSETS, "")
    if not setting:
        return {}
    folder = Path(setting).absolute()
    if not folder.is_dir():
        raise LabError(f"{_ASSETS}: {folder} is not a folder", hint=f"correct it, or unset {_ASSETS}")
    ready = {name: folder / name for name in _ASSET_PROGRAMS if name in names}
    return {name: path for name, path in ready.items() if _is_executable(path)}


def _plan(build_env: BuildEnvironment, part: GoModule) -> _Plan:
    source = build_env.sources / part.name
    go = toolchain.find(required_go(source), build_env.sources / "toolchain.txt", build_env.environ)
    return _Plan(part, key(part, source, go.version), go)


def _collect(
    build_env: BuildEnvironment, plans: Iterable[_Plan], names: set[str], assets: dict[str, Path]
) -> BuiltPrograms:
    paths = dict(assets)
    files: dict[str, Path] = {}
    for plan in plans:
        folder = build_env.cache.folder(plan.key)
        for program in plan.part.programs:
            if program in names:
                paths.setdefault(program, folder / "bin" / program)
        files |= {Path(name).name: folder / "files" / Path(name).name for name in plan.part.files}
    return BuiltPrograms(paths, files)


def _build(build_env: BuildEnvironment, plan: _Plan, report: Report) -> None:
    """Build one part; if another process builds it already, wait for its result."""
    cache, part, began = build_env.cache, plan.part, time.monotonic()

    def report_phase(phase: BuildPhase, done: int = 0, total: int = 0) -> None:
        report(BuildProgress(phase, part.name, Seconds(time.monotonic() - began), min(done, total), total))

    with caches.hold_lock(cache, plan.key, lambda: report_phase(BuildPhase.WAIT)):
        if not caches.is_complete(cache.folder(plan.key)):
            caches.require_space(cache, part.disk)
            pins = build_env.sources / "toolchain.txt"
            go = toolchain.fetch(
                cache, plan.go, pins, build_env.environ, lambda: report_phase(BuildPhase.TOOLCHAIN)
            )
            source, log = build_env.sources / part.name, cache.log(plan.key)
            metadata = {"version": pinned_version(part, source), "go": ".".join(map(str, plan.go.version))}
            with (
                caches.hold_go_caches(cache),
                caches.staging_folder(cache, plan.key, {**metadata}) as staging,
            ):
                (staging / "tmp").mkdir()
                env = toolchain.environment(cache, staging / "tmp", build_env.environ)
                if part.library:
                    env |= compiler.environment(
                        part.library,
                        staging / "tmp",
                        cache,
                        build_env.environ,
                        lambda: report_phase(BuildPhase.FETCH),
                    )
                _fill(_Job(go, part, source, staging, log, env, report_phase))
    report_phase(BuildPhase.DONE)


def _fill(job: _Job) -> None:
    """Fill the staging folder with everything that a finished part holds."""
    (job.staging / "bin").mkdir()
    job.log.write_bytes(b"")
    _compile(job, _packages(job))
    for program in job.part.programs:
        path = job.staging / "bin" / program
        if job.part.binary and program != job.part.binary:
            path.symlink_to(job.part.binary)
        if not _is_executable(path):
            raise _failure(job, f"go build wrote no {program}")
    _copy_files(job)
    shutil.rmtree(job.staging / "tmp")
    shutil.move(job.log, job.staging / "build.log")


def _packages(job: _Job) -> list[str]:
    """Return every package of the part; Go downloads their modules on the way."""
    total = len(_REQUIRED.findall((job.source / "go.mod").read_text()))

    def watch() -> None:
        job.report(BuildPhase.FETCH, job.log.read_text(errors="replace").count("go: downloading "), total)

    output = job.staging / "tmp" / "packages"
    tags = ["-tags", ",".join(job.part.tags)]
    _go(job, ["list", "-deps", *tags, job.part.target], watch, output)
    return output.read_text().split()


def _compile(job: _Job, packages: list[str]) -> None:
    def watch() -> None:
        # -v prints the import path of each compiled package on a line; the main package comes last.
        compiled = [line for line in job.log.read_text(errors="replace").splitlines() if " " not in line]
        phase = BuildPhase.LINK if packages[-1] in compiled else BuildPhase.COMPILE
        job.report(phase, len(compiled), len(packages))

    chosen = flags(job.part, pinned_version(job.part, job.source))
    output = f"{job.staging}/bin/{job.part.binary}"
    _go(job, ["build", "-v", "-o", output, *chosen, job.part.target], watch)


def _copy_files(job: _Job) -> None:
    if not job.part.files:
        return
    output = job.staging / "tmp" / "module"
    _go(job, ["list", "-m", "-f", "{{.Dir}}", job.part.pin], output=output)
    (job.staging / "files").mkdir()
    for name in job.part.files:
        shutil.copyfile(Path(output.read_text().strip()) / name, job.staging / "files" / Path(name).name)


def _go(
    job: _Job, arguments: list[str], watch: Callable[[], None] = lambda: None, output: Path | None = None
) -> None:
    code = subprocess.run(
        [str(job.go), *arguments], job.log, env=job.env, cwd=job.source, watch=watch, output=output
    )
    if code != 0:
        raise _failure(job, f"go {arguments[0]} exited with {code}")


def _failure(job: _Job, what: str) -> LabError:
    """Return the error of a failed build: its programs, its module, and the tail of its log."""
    log = job.log.read_text(errors="replace")
    lines = [line for line in log.splitlines() if " " in line]  # the others name packages that compiled
    tail = "".join(f"\n  | {line}" for line in lines[-_TAIL:])
    hint = next((hint for pattern, hint in _HINTS if pattern in log), "")
    return LabError(
        f"cannot build {', '.join(job.part.programs)} from module {job.source}: {what}{tail}",
        hint=f"{hint}; full log: {job.log}" if hint else f"full log: {job.log}",
    )


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
