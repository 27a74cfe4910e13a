"""On what terms a node's accelerators are published: what was asked for, checked before anything starts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from fairlead.errors import SettingsError
from fairlead.offer import DRIVER, Form

Nvidia = Literal["auto", "env", "cdi"]
KUBELET: Final = "/var/lib/kubelet"
TARGETS: Final = ("labels", "plugin", "claims")
"""What can be published: labels on the node, a device plugin's resources, and slices for claims (DRA)."""
_MANY, _FEW = 150_000, 32_768
_VERSION: Final = re.compile(r"v?([0-9]+)\.([0-9]+)")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """How a node publishes its accelerators."""

    node: str
    targets: frozenset[str] = frozenset(TARGETS)
    legacy_labels: bool = False
    kubelet: Path = Path(KUBELET)
    """The kubelet's folder, at the same path here as on the node."""
    warden: Path | None = None
    """The folder of the warden's sockets; without it, no kubelet's books and no CDI."""
    with_cdi: bool = True
    """Whether the warden may write CDI files."""
    gibibytes: bool = False
    """Whether shares of memory are counted in GiB; in MiB otherwise."""
    most_units: int = 0
    """How many units of memory a node offers at most; 0 for what its kubelet can bear."""
    nvidia: Nvidia = "auto"
    device_root: str = ""
    """The folder on the node below which device nodes lie; empty for the node itself."""

    @property
    def sockets(self) -> Path:
        """The folder of the plugins' own sockets."""
        return self.kubelet / "plugins" / DRIVER

    @property
    def registry(self) -> Path:
        """The folder in which the kubelet finds plugins."""
        return self.kubelet / "plugins_registry" / DRIVER

    @property
    def books(self) -> Path | None:
        """The socket behind which the kubelet says who holds what."""
        return self.warden / "pod-resources.sock" if self.warden else None

    @property
    def cdi(self) -> Path | None:
        """The socket through which CDI files are written."""
        return self.warden / "cdi.sock" if self.warden and self.with_cdi else None

    @property
    def forms(self) -> frozenset[Form]:
        """The forms in which accelerators are offered."""
        plugin = {Form.WHOLE, Form.MEMORY} if "plugin" in self.targets else set()
        return frozenset(plugin | ({Form.CLAIM} if "claims" in self.targets else set()))


def unit_limit(kubelet: str) -> int:
    """Return how many units of one resource a kubelet of this version can bear.

    All take lists of 4 MiB. From 1.36 on (feature gate ResourceHealthStatus) a kubelet compares every unit
    that is new or changed with every unit that is held, and waits with everything else meanwhile: for
    16,000 units of which 2,000 are held, 16 seconds after each restart, and with the square of the number.
    """
    found = _VERSION.match(kubelet)
    old = found is not None and (int(found[1]), int(found[2])) < (1, 36)
    return _MANY if old else _FEW


def parse_targets(text: str) -> frozenset[str]:
    """Read what to publish: `labels,plugin,claims`, or `all`."""
    words = {word.strip() for word in text.split(",") if word.strip()}
    if words == {"all"}:
        return frozenset(TARGETS)
    unknown = sorted(words - set(TARGETS))
    if unknown or not words:
        what = f"{', '.join(unknown)} is nothing that can be published" if unknown else "says nothing"
        raise SettingsError(f"publish: {what}", f"choose from {', '.join(TARGETS)}, or all")
    return frozenset(words)


def check(terms: PublishConfig, ready: Iterable[Path] = ()) -> PublishConfig:
    """Return the terms, or raise SettingsError for what cannot be."""
    if not _NAME.fullmatch(terms.node):
        raise SettingsError(
            f"node: {terms.node!r} is no name of a node",
            "pass --node, or set NODE_NAME from spec.nodeName in the pod's manifest",
        )
    if "claims" in terms.targets and terms.cdi is None:
        raise SettingsError(
            "publish: claims need CDI files, and those are written by the warden",
            "run `fairlead warden serve` beside this and pass --warden DIR, or leave claims out",
        )
    if terms.most_units < 0:
        raise SettingsError("most-units: there is no negative number of units", "choose 0 to leave it to us")
    missing = [folder for folder in ready if not folder.is_dir()]
    if missing:
        raise SettingsError(
            f"{missing[0]}: no such folder",
            "mount the kubelet's folder at the same path, and run `fairlead warden open` on it first",
        )
    return terms
