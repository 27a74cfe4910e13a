"""What a lab's programs are told beyond the usual: features, APIs, the scheduler's configuration."""

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
    """How the programs of a lab differ from stock ones."""

    feature_gates: str = ""
    """Feature gates of all programs, as their command lines take them; empty: the usual ones."""
    runtime_config: str = ""
    """APIs that the API server serves, or does not, as its command line takes them; empty: the usual ones."""
    scheduler: Mapping[str, Any] | None = None
    """The scheduler's configuration; None: the usual one."""

    def all_programs(self) -> list[str]:
        """Return the arguments that every program of Kubernetes gets."""
        return [f"--feature-gates={self.feature_gates}"] if self.feature_gates else []

    def api_server(self) -> list[str]:
        """Return the arguments that the API server gets."""
        return [
            *self.all_programs(),
            *([f"--runtime-config={self.runtime_config}"] if self.runtime_config else []),
        ]


def parse_feature_gates(text: str) -> str:
    """Read feature gates, `A=true,B=false`; the programs themselves know which ones there are."""
    return _switches("--feature-gates", text, _GATE, "DRAConsumableCapacity=true")


def parse_runtime_config(text: str) -> str:
    """Read which APIs to serve, `GROUP/VERSION=true,...`."""
    return _switches("--runtime-config", text, _API, "resource.k8s.io/v1beta1=true")


def load_scheduler_config(path: Path) -> Mapping[str, Any]:
    """Read a KubeSchedulerConfiguration."""
    try:
        with path.open("rb") as file:
            text = file.read(_SIZE_LIMIT + 1)
        found = yamltext.parse(text) if len(text) <= _SIZE_LIMIT else None
    except (OSError, yamltext.BadYamlError) as error:
        raise LabError(
            f"{path}: {error.strerror if isinstance(error, OSError) else error}", hint=f"expected: a {_KIND}"
        ) from None
    if not isinstance(found, dict) or found.get("kind") != _KIND:
        raise LabError(
            f"{path}: no {_KIND}", hint=f"its first lines are apiVersion: {_GROUP}v1, kind: {_KIND}"
        )
    if not str(found.get("apiVersion", "")).startswith(_GROUP):
        raise LabError(f"{path}: apiVersion {found.get('apiVersion')!r}", hint=f"expected: {_GROUP}v1")
    for key in ("clientConnection", "leaderElection"):
        if not isinstance(found.get(key) or {}, dict):
            raise LabError(f"{path}: {key} is no mapping")
    return found


def render_scheduler_config(given: Mapping[str, Any] | None, kubeconfig: Path) -> str:
    """Return the configuration that a lab's scheduler reads: as given, and what only the lab can know.

    Where nothing is given it is stock, but for the rate at which it may write. It never waits for a Lease
    unless told to: a lab has one scheduler.
    """
    given = given or {"apiVersion": f"{_GROUP}v1", "kind": _KIND}
    connection = {
        "kubeconfig": str(kubeconfig),
        "qps": 5000,
        "burst": 5000,
        **_part(given, "clientConnection"),
    }
    election = {"leaderElect": False, **_part(given, "leaderElection")}
    whole = {**given, "clientConnection": connection, "leaderElection": election}
    return yamltext.dump(whole)


def _part(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return {name: value for name, value in (given.get(key) or {}).items() if value is not None}


def _switches(option: str, text: str, name: re.Pattern[str], example: str) -> str:
    """Return a list of names that are each true or false, checked and without blanks."""
    found = [each.strip() for each in text.split(",")]
    for each in found:
        key, _, value = each.partition("=")
        if not name.fullmatch(key) or value not in ("true", "false"):
            raise LabError(f"{option}: {each!r} is not NAME=true or NAME=false", hint=f"such as {example}")
    return ",".join(found)
