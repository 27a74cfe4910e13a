"""Small tools, unpacked from Debian packages into the cache; nothing is installed on the host.

A node uses these: runc starts containers, the CNI plugins connect them, kube-proxy calls nft, conntrack and
iptables, the kubelet calls socat for port-forwards, and a static busybox becomes the image of test pods.
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
# Debian creates these links at installation (update-alternatives); the lab only unpacks.
_IPTABLES: Final = tuple(
    f"{tool}{verb}" for tool in ("iptables", "ip6tables") for verb in ("", "-save", "-restore")
)
_FOLDERS: Final = ("links", "usr/sbin", "usr/bin", "sbin", "bin")
_HINT: Final = "the node profile needs Debian or Ubuntu; the profiles api and control run anywhere"
_FOREIGN_HINT: Final = "apt's sources must offer {kind}: Debian's do, Ubuntu's need a line for its ports"


@dataclass(frozen=True, slots=True)
class DebianTools:
    """Unpacked packages, and the paths of their programs."""

    root: Path
    versions: Mapping[str, str]
    """Every unpacked package, libraries included."""

    @property
    def runc(self) -> Path:
        """The OCI runtime that containerd calls for each container."""
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
        """Return an environment whose PATH has the tools, and in which they load their own libraries."""
        path = [str(self.root / name) for name in _FOLDERS]
        libraries = [str(folder) for folder in self._libraries()]
        return dict(environ) | {
            "PATH": os.pathsep.join([*path, environ.get("PATH", os.defpath)]),
            "LD_LIBRARY_PATH": os.pathsep.join([*libraries, *filter(None, [environ.get("LD_LIBRARY_PATH")])]),
            "XTABLES_LIBDIR": os.pathsep.join(map(str, self.root.glob("usr/lib/*/xtables"))),
        }

    def program(self, name: str) -> Path:
        """Return the path of a program."""
        # The folder differs between Debian's releases.
        places = (self.root / folder / name for folder in _FOLDERS)
        return next((path for path in places if path.exists()), self.root / "usr/sbin" / name)

    def _libraries(self) -> list[Path]:
        objects = [*self.root.glob("usr/lib/*-linux-*/*.so.*"), *self.root.glob("lib/*-linux-*/*.so.*")]
        return sorted({path.parent for path in objects})


@dataclass(frozen=True, slots=True)
class _Apt:
    """A call of apt: with the host's package lists, or with lists of our own."""

    packages: tuple[str, ...]
    environ: Mapping[str, str]
    log: Path
    tick: Callable[[], None]
    architecture: str = ""
    options: tuple[str, ...] = ()

    def with_lists(self, root: Path) -> "_Apt":
        """Return a call of apt with package lists of our own, below the cache's root."""
        lists = root / (f"apt-{self.architecture}" if self.architecture else "apt")
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        chosen = [f"Dir::State::Lists={lists}", "Dir::Cache::pkgcache="]
        if self.architecture:
            # An empty status: the host's installed packages are for the host's architecture.
            chosen += [f"{name}={self.architecture}" for name in ("APT::Architecture", "APT::Architectures")]
            chosen += ["Dir::State::status=/dev/null", "Dir::Cache::srcpkgcache="]
        return replace(self, options=tuple(word for option in chosen for word in ("-o", option)))

    def run(self, argv: Sequence[str], cwd: Path) -> None:
        """Run a program to its end; raise with the tail of its log if it fails."""
        if subprocess.run(argv, self.log, env=self.environ, cwd=cwd, watch=self.tick) != 0:
            tail = "".join(f"\n  | {line}" for line in self.log.read_text(errors="replace").splitlines()[-8:])
            raise LabError(
                f"{', '.join(self.packages)} cannot be fetched: {' '.join(argv[:2])} failed{tail}",
                hint=f"check the network and apt's sources; full log: {self.log}",
            )

    def versions(self) -> dict[str, str]:
        """Return the packages to unpack and their versions, with the libraries that the host lacks."""
        # --reinstall also names those that the host has: the host may change or remove its own later.
        argv = ["apt-get", *self.options, "--simulate", "--no-install-recommends", "--reinstall", "install"]
        output = subprocess.read_output([*argv, *self.packages], env=self.environ) or ""
        versions = dict(_INST.findall(output))
        return versions if versions.keys() >= set(self.packages) else {}


def ensure_tools(
    tick: Callable[[], None] = lambda: None,
    *,
    packages: tuple[str, ...] = PACKAGES,
    architecture: str = "",
    refresh: bool = False,
    cache: BuildCache | None = None,
    environ: Mapping[str, str] = os.environ,
) -> DebianTools:
    """Return unpacked packages; fetch them if they are missing, or if `refresh` asks for newer ones.

    The cache keys them by version. Cached ones are used without a call of apt, which takes seconds and the
    network: they fit as long as packages, release and machine stay the same.
    `architecture` (Debian's name, for example arm64) asks for the packages of another architecture, with all
    their dependencies; empty: those of this machine, without what the host has already.
    """
    cache = cache or caches.default(environ)
    host = [*_host(architecture), *packages]
    if not refresh and (cached := _find_cached(cache, host)):
        return cached
    for name in ("apt-get", "dpkg"):
        if shutil.which(name, path=environ.get("PATH", "")) is None:
            raise LabError(
                f"{name} is not on this machine, so {', '.join(packages)} cannot be fetched", hint=_HINT
            )
    with caches.hold_lock(cache, "debian", tick):
        apt = _Apt(packages, {**environ, "LC_ALL": "C"}, cache.log("debian"), tick, architecture)
        return (None if refresh else _find_cached(cache, host)) or _fetch(cache, host, apt)


def _host(architecture: str) -> list[str]:
    """Return what unpacked packages must fit: the distribution, its release, and the architecture."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    return [release.get("ID", ""), release.get("VERSION_ID", ""), architecture or platform.machine()]


def _find_cached(cache: BuildCache, host: list[str]) -> DebianTools | None:
    """Return the newest cached tools that fit this host."""
    folders = [folder for folder in cache.root.glob("debian-*/") if caches.is_complete(folder)]
    for folder in sorted(folders, key=lambda folder: folder.stat().st_mtime, reverse=True):
        if caches.read_metadata(folder).get("host") == host:
            return _tools(folder)
    return None


def _tools(folder: Path) -> DebianTools:
    versions = caches.read_metadata(folder)["versions"]
    assert isinstance(versions, dict)
    return DebianTools(folder / "root", versions)


def _fetch(cache: BuildCache, host: list[str], host_apt: _Apt) -> DebianTools:
    """Fetch with the host's package lists; if those are missing or outdated, with fresh ones."""
    host_apt.log.write_bytes(b"")
    with suppress(LabError):
        if not host_apt.architecture and (versions := host_apt.versions()):
            return _unpack(cache, host, host_apt, versions)
    apt = host_apt.with_lists(cache.root)
    apt.run(["apt-get", "update", *apt.options], cache.root)
    versions = apt.versions()
    if not versions:
        kind = f" for {apt.architecture}" if apt.architecture else ""
        hint = _FOREIGN_HINT.format(kind=apt.architecture) if apt.architecture else _HINT
        raise LabError(f"apt does not offer all of {', '.join(apt.packages)}{kind}", hint=hint)
    return _unpack(cache, host, apt, versions)


def _unpack(cache: BuildCache, host: list[str], apt: _Apt, versions: dict[str, str]) -> DebianTools:
    digest = hashlib.sha256(json.dumps([host, versions], sort_keys=True).encode()).hexdigest()
    key = f"debian-{digest[:12]}"
    if not caches.is_complete(cache.folder(key)):
        with caches.staging_folder(cache, key, {"host": host, "versions": versions}) as staging:
            debs, root = staging / "debs", staging / "root"
            debs.mkdir()
            exact = [f"{package}={version}" for package, version in sorted(versions.items())]
            apt.run(["apt-get", "download", "--quiet", *apt.options, *exact], debs)
            for deb in sorted(debs.glob("*.deb")):
                apt.run(["dpkg", "-x", str(deb), str(root)], debs)
            shutil.rmtree(debs)
            (root / "links").mkdir()
            for name in _IPTABLES if "iptables" in versions else ():
                (root / "links" / name).symlink_to("../usr/sbin/xtables-nft-multi")
    apt.log.unlink()
    return _tools(cache.folder(key))
