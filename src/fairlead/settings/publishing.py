"""How a node's accelerators are published: settings, checked before the agent starts."""

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
"""What can be published: labels of the node, resources of device plugins, and slices for claims (DRA)."""
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
    """The folder of the warden's sockets; without it, no pod resources and no CDI."""
    with_cdi: bool = True
    """Whether the warden may write CDI files."""
    gibibytes: bool = False
    """Whether shares of memory are counted in GiB; in MiB otherwise."""
    most_units: int = 0
    """The most units of memory that a node offers; 0 for the limit of its kubelet."""
    nvidia: Nvidia = "auto"
    device_root: str = ""
    """The folder on the node below which device nodes lie; empty for the node itself."""
    limiter_folder: Path | None = None
    """The folder of the limiter's socket; without it, no share is enforced."""
    limit_hami: bool = False
    """Whether pods with HAMi's resources are limited without an annotation."""

    @property
    def sockets(self) -> Path:
        """The folder of the plugins' own sockets."""
        return self.kubelet / "plugins" / DRIVER

    @property
    def registry(self) -> Path:
        """The folder in which the kubelet discovers plugins."""
        return self.kubelet / "plugins_registry" / DRIVER

    @property
    def pod_resources(self) -> Path | None:
        """The socket of the kubelet's PodResources API."""
        return self.warden / "pod-resources.sock" if self.warden else None

    @property
    def cdi(self) -> Path | None:
        """The socket through which CDI files are written."""
        return self.warden / "cdi.sock" if self.warden and self.with_cdi else None

    @property
    def limiter(self) -> Path | None:
        """The socket through which shares are enforced."""
        return self.limiter_folder / "limit.sock" if self.limiter_folder else None

    @property
    def forms(self) -> frozenset[Form]:
        """The forms in which accelerators are offered."""
        plugin = {Form.WHOLE, Form.MEMORY} if "plugin" in self.targets else set()
        return frozenset(plugin | ({Form.CLAIM} if "claims" in self.targets else set()))


def unit_limit(kubelet: str) -> int:
    """Return the most units of one resource that a kubelet of this version can handle.

    All accept lists of 4 MiB. From 1.36 on (feature gate ResourceHealthStatus) a kubelet compares every new
    or changed unit with every held unit, and does nothing else meanwhile: with 16,000 units of which 2,000
    are held, that takes 16 seconds after each restart, and it grows with the square of the number.
    """
    version = _VERSION.match(kubelet)
    old = version is not None and (int(version[1]), int(version[2])) < (1, 36)
    return _MANY if old else _FEW


def parse_targets(text: str) -> frozenset[str]:
    """Parse what to publish: `labels,plugin,claims`, or `all`."""
    words = {word.strip() for word in text.split(",") if word.strip()}
    if words == {"all"}:
        return frozenset(TARGETS)
    unknown = sorted(words - set(TARGETS))
    if unknown or not words:
        what = f"{', '.join(unknown)} cannot be published" if unknown else "the list is empty"
        raise SettingsError(f"publish: {what}", f"choose from {', '.join(TARGETS)}, or all")
    return frozenset(words)


def check(config: PublishConfig, ready: Iterable[Path] = ()) -> PublishConfig:
    """Return the configuration, or raise SettingsError where it is invalid."""
    if not _NAME.fullmatch(config.node):
        raise SettingsError(
            f"node: {config.node!r} is not the name of a node",
            "pass --node, or set NODE_NAME from spec.nodeName in the pod's manifest",
        )
    if "claims" in config.targets and config.cdi is None:
        raise SettingsError(
            "publish: claims need CDI files, and those are written by the warden",
            "run `fairlead warden serve` beside this and pass --warden DIR, or leave claims out",
        )
    if config.limit_hami and config.limiter is None:
        raise SettingsError(
            "limit-hami: shares are enforced by the limiter, and there is none",
            "run `fairlead warden limit` on this node and pass --limiter DIR",
        )
    if config.most_units < 0:
        raise SettingsError("most-units: must not be negative", "choose 0 for the limit of the kubelet")
    missing = [folder for folder in ready if not folder.is_dir()]
    if missing:
        raise SettingsError(
            f"{missing[0]}: no such folder",
            "mount the kubelet's folder at the same path, and run `fairlead warden open` on it first",
        )
    return config
