"""Small tools, unpacked from Debian packages into the cache; nothing is installed on the host.

Those of a node come first: runc starts containers, the CNI plugins wire them, kube-proxy calls nft, conntrack
and iptables, the kubelet calls socat for port-forwards, and a static busybox becomes the image of test pods.
"""

import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.build import cache as caches
from fairlead.lab.build.cache import BuildCache
from fairlead.lab.run import subprocess

PACKAGES: Final = (
    "busybox-static",
    "conntrack",
    "containernetworking-plugins",
    "iptables",
    "nftables",
    "runc",
    "socat",
)
_INST: Final = re.compile(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", re.MULTILINE)
# Debian makes these links when the package is installed (update-alternatives); we only unpack.
_IPTABLES: Final = tuple(
    f"{tool}{verb}" for tool in ("iptables", "ip6tables") for verb in ("", "-save", "-restore")
)
_FOLDERS: Final = ("links", "usr/sbin", "usr/bin", "sbin", "bin")
_HOW: Final = "the node profile needs Debian or Ubuntu; the profiles api and control run anywhere"
_OTHER: Final = "apt's sources must offer {kind}: Debian's do, Ubuntu's need a line for its ports"


@dataclass(frozen=True, slots=True)
class DebianTools:
    """Unpacked packages, and how to call what is in them."""

    root: Path
    versions: Mapping[str, str]
    """Every package that was unpacked, libraries included."""

    @property
    def runc(self) -> Path:
        """The program that containerd calls for each container."""
        return self.program("runc")

    @property
    def cni(self) -> Path:
        """The folder of the CNI plugins."""
        return self.root / "usr/lib/cni"

    @property
    def busybox(self) -> Path:
        """A static busybox."""
        return self.program("busybox")

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return an environment in which the tools are found, and find their own libraries."""
        path = [str(self.root / name) for name in _FOLDERS]
        libraries = [str(folder) for folder in self._libraries()]
        return dict(environ) | {
            "PATH": os.pathsep.join([*path, environ.get("PATH", os.defpath)]),
            "LD_LIBRARY_PATH": os.pathsep.join([*libraries, *filter(None, [environ.get("LD_LIBRARY_PATH")])]),
            "XTABLES_LIBDIR": os.pathsep.join(map(str, self.root.glob("usr/lib/*/xtables"))),
        }

    def program(self, name: str) -> Path:
        """Return the path of a program."""
        # Which of these folders it is differs between Debian's releases.
        places = (self.root / folder / name for folder in _FOLDERS)
        return next((path for path in places if path.exists()), self.root / "usr/sbin" / name)

    def _libraries(self) -> list[Path]:
        found = [*self.root.glob("usr/lib/*-linux-*/*.so.*"), *self.root.glob("lib/*-linux-*/*.so.*")]
        return sorted({path.parent for path in found})


@dataclass(frozen=True, slots=True)
class _Apt:
    """How apt is called: with the host's package lists, or with fresh ones of our own."""

    packages: tuple[str, ...]
    environ: Mapping[str, str]
    log: Path
    tick: Callable[[], None]
    architecture: str = ""
    options: tuple[str, ...] = ()

    def with_lists(self, root: Path) -> "_Apt":
        """Return apt with package lists of our own, below the cache's root."""
        lists = root / (f"apt-{self.architecture}" if self.architecture else "apt")
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        chosen = [f"Dir::State::Lists={lists}", "Dir::Cache::pkgcache="]
        if self.architecture:
            # An empty status: what the host has installed is for its own kind of machine.
            chosen += [f"{name}={self.architecture}" for name in ("APT::Architecture", "APT::Architectures")]
            chosen += ["Dir::State::status=/dev/null", "Dir::Cache::srcpkgcache="]
        return replace(self, options=tuple(word for option in chosen for word in ("-o", option)))

    def do(self, argv: Sequence[str], cwd: Path) -> None:
        """Run a program to its end, or say why it failed."""
        if subprocess.run(argv, self.log, env=self.environ, cwd=cwd, watch=self.tick) != 0:
            tail = "".join(f"\n  | {line}" for line in self.log.read_text(errors="replace").splitlines()[-8:])
            raise LabError(
                f"{', '.join(self.packages)} cannot be fetched: {' '.join(argv[:2])} failed{tail}",
                hint=f"look at the network and at apt's sources; whole log: {self.log}",
            )

    def versions(self) -> dict[str, str]:
        """Return the packages to unpack with their versions: ours, and the libraries that the host lacks."""
        # --reinstall names also those that the host has: its own may be changed or removed meanwhile.
        argv = ["apt-get", *self.options, "--simulate", "--no-install-recommends", "--reinstall", "install"]
        said = subprocess.read_output([*argv, *self.packages], env=self.environ) or ""
        found = dict(_INST.findall(said))
        return found if found.keys() >= set(self.packages) else {}


def ensure_tools(
    tick: Callable[[], None] = lambda: None,
    *,
    packages: tuple[str, ...] = PACKAGES,
    architecture: str = "",
    refresh: bool = False,
    cache: BuildCache | None = None,
    environ: Mapping[str, str] = os.environ,
) -> DebianTools:
    """Return unpacked packages; fetch them when they are missing, or when `refresh` asks for newer ones.

    They are kept by the versions that were found. Those at hand are taken without asking apt, which
    takes seconds and the network: they fit as long as packages, release and machine are the same.
    `architecture` (Debian's name, for example arm64) asks for another kind of machine's packages, with every
    package that they depend on; empty: this machine's, without what the host has already.
    """
    cache = cache or caches.default(environ)
    host = [*_host(architecture), *packages]
    if not refresh and (kept := _kept(cache, host)):
        return kept
    for name in ("apt-get", "dpkg"):
        if shutil.which(name, path=environ.get("PATH", "")) is None:
            raise LabError(
                f"{name} is not on this machine, so {', '.join(packages)} cannot be had", hint=_HOW
            )
    with caches.hold_lock(cache, "debian", tick):
        apt = _Apt(packages, {**environ, "LC_ALL": "C"}, cache.log("debian"), tick, architecture)
        return (None if refresh else _kept(cache, host)) or _fetch(cache, host, apt)


def _host(architecture: str) -> list[str]:
    """Return what unpacked packages must fit: a distribution's release, and a machine."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return [release.get("ID", ""), release.get("VERSION_ID", ""), architecture or platform.machine()]


def _kept(cache: BuildCache, host: list[str]) -> DebianTools | None:
    """Return the newest tools at hand that fit this host."""
    folders = [folder for folder in cache.root.glob("debian-*/") if caches.is_complete(folder)]
    for folder in sorted(folders, key=lambda folder: folder.stat().st_mtime, reverse=True):
        if caches.read_metadata(folder).get("host") == host:
            return _tools(folder)
    return None


def _tools(folder: Path) -> DebianTools:
    versions = caches.read_metadata(folder)["versions"]
    assert isinstance(versions, dict)
    return DebianTools(folder / "root", versions)


def _fetch(cache: BuildCache, host: list[str], theirs: _Apt) -> DebianTools:
    """Fetch with the host's package lists; where those are missing or outdated, with fresh ones."""
    theirs.log.write_bytes(b"")
    with suppress(LabError):
        if not theirs.architecture and (versions := theirs.versions()):
            return _unpack(cache, host, theirs, versions)
    ours = theirs.with_lists(cache.root)
    ours.do(["apt-get", "update", *ours.options], cache.root)
    versions = ours.versions()
    if not versions:
        kind = f" for {ours.architecture}" if ours.architecture else ""
        how = _OTHER.format(kind=ours.architecture) if ours.architecture else _HOW
        raise LabError(f"apt knows not all of {', '.join(ours.packages)}{kind}", hint=how)
    return _unpack(cache, host, ours, versions)


def _unpack(cache: BuildCache, host: list[str], apt: _Apt, versions: dict[str, str]) -> DebianTools:
    digest = hashlib.sha256(json.dumps([host, versions], sort_keys=True).encode()).hexdigest()
    key = f"debian-{digest[:12]}"
    if not caches.is_complete(cache.folder(key)):
        with caches.staging_folder(cache, key, {"host": host, "versions": versions}) as aside:
            debs, root = aside / "debs", aside / "root"
            debs.mkdir()
            exact = [f"{package}={version}" for package, version in sorted(versions.items())]
            apt.do(["apt-get", "download", "--quiet", *apt.options, *exact], debs)
            for deb in sorted(debs.glob("*.deb")):
                apt.do(["dpkg", "-x", str(deb), str(root)], debs)
            shutil.rmtree(debs)
            (root / "links").mkdir()
            for name in _IPTABLES if "iptables" in versions else ():
                (root / "links" / name).symlink_to("../usr/sbin/xtables-nft-multi")
    apt.log.unlink()
    return _tools(cache.folder(key))
