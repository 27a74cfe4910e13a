"""The settings in which a lab differs from stock: feature gates, APIs, the scheduler's configuration."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead import yamltext
from fairlead.errors import LabError

_GATE: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_API: Final = re.compile(r"api/(all|ga|beta|alpha)|([a-z][a-z0-9.-]*/)?v[0-9][a-z0-9]*(/[a-z]+)?")
_KIND: Final = "KubeSchedulerConfiguration"
_GROUP: Final = "kubescheduler.config.k8s.io/"
_SIZE_LIMIT: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LabTuning:
    """The settings of a lab's programs that differ from stock."""

    feature_gates: str = ""
    """Feature gates of all programs, in the form of `--feature-gates`; empty: the defaults."""
    runtime_config: str = ""
    """APIs that the API server serves or not, in the form of `--runtime-config`; empty: the defaults."""
    scheduler: Mapping[str, Any] | None = None
    """The scheduler's configuration; None: the default."""

    def common_arguments(self) -> list[str]:
        """Return the arguments of every program of Kubernetes."""
        return [f"--feature-gates={self.feature_gates}"] if self.feature_gates else []

    def api_server_arguments(self) -> list[str]:
        """Return the arguments of the API server."""
        return [
            *self.common_arguments(),
            *([f"--runtime-config={self.runtime_config}"] if self.runtime_config else []),
        ]


def parse_feature_gates(text: str) -> str:
    """Parse feature gates, `A=true,B=false`; the programs themselves reject unknown ones."""
    return _parse_switches("--feature-gates", text, _GATE, "DRAConsumableCapacity=true")


def parse_runtime_config(text: str) -> str:
    """Parse the APIs to serve, `GROUP/VERSION=true,...`."""
    return _parse_switches("--runtime-config", text, _API, "resource.k8s.io/v1beta1=true")


def load_scheduler_config(path: Path) -> Mapping[str, Any]:
    """Read a KubeSchedulerConfiguration."""
    try:
        with path.open("rb") as file:
            text = file.read(_SIZE_LIMIT + 1)
        config = yamltext.parse(text) if len(text) <= _SIZE_LIMIT else None
    except (OSError, yamltext.BadYamlError) as error:
        raise LabError(
            f"{path}: {error.strerror if isinstance(error, OSError) else error}", hint=f"expected: a {_KIND}"
        ) from None
    if not isinstance(config, dict) or config.get("kind") != _KIND:
        raise LabError(
            f"{path}: not a {_KIND}", hint=f"its first lines are apiVersion: {_GROUP}v1, kind: {_KIND}"
        )
    if not str(config.get("apiVersion", "")).startswith(_GROUP):
        raise LabError(f"{path}: apiVersion {config.get('apiVersion')!r}", hint=f"expected: {_GROUP}v1")
    for key in ("clientConnection", "leaderElection"):
        if not isinstance(config.get(key) or {}, dict):
            raise LabError(f"{path}: {key} is not a mapping")
    return config


def render_scheduler_config(config: Mapping[str, Any] | None, kubeconfig: Path) -> str:
    """Return the configuration file of a lab's scheduler: the user's, completed by what only the lab knows.

    Without one of the user's it is stock, except for the client's rate limit. Leader election is off unless
    the user's file turns it on: a lab has one scheduler.
    """
    config = config or {"apiVersion": f"{_GROUP}v1", "kind": _KIND}
    connection = {
        "kubeconfig": str(kubeconfig),
        "qps": 5000,
        "burst": 5000,
        **_section(config, "clientConnection"),
    }
    election = {"leaderElect": False, **_section(config, "leaderElection")}
    return yamltext.dump({**config, "clientConnection": connection, "leaderElection": election})


def _section(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return {name: value for name, value in (config.get(key) or {}).items() if value is not None}


def _parse_switches(option: str, text: str, name: re.Pattern[str], example: str) -> str:
    """Check a list of NAME=true and NAME=false, and return it without blanks."""
    switches = [switch.strip() for switch in text.split(",")]
    for switch in switches:
        key, _, value = switch.partition("=")
        if not name.fullmatch(key) or value not in ("true", "false"):
            raise LabError(f"{option}: {switch!r} is not NAME=true or NAME=false", hint=f"such as {example}")
    return ",".join(switches)
