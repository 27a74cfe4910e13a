"""Render the chart: manifests for `kubectl apply`, and the table of its values.

`make manifests` runs it; a test fails if the committed files differ from its output.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).parent
CHART: Final = HERE / "chart"
MANIFESTS: Final = HERE / "manifests"
REFERENCE: Final = HERE.parent / "docs/reference/chart.md"
RELEASE: Final = "fairlead"
NAMESPACE: Final = "fairlead-system"
_TABLE: Final = re.compile(r"(?<=<!-- values -->\n).*(?=<!-- end of values -->)", re.DOTALL)
_KIND: Final = re.compile(r"^kind: (\w+)$", re.MULTILINE)
_SOURCE: Final = re.compile(r"^# Source: .*\n", re.MULTILINE)
_KEPT: Final = re.compile(r"^  annotations:\n    helm\.sh/resource-policy: keep\n", re.MULTILINE)
_NOTE: Final = "# Rendered from deploy/chart by `make manifests`. Change the chart, not this file.\n"
_OWN_FILES: Final = {
    "deviceclasses.yaml": "DeviceClass",
    "modelprofiles.yaml": "CustomResourceDefinition",
}
_OPTIONAL: Final = {
    "scheduler.yaml": "scheduler.enabled=true,scheduler.admission.enabled=false",
    "extender.yaml": "extender.enabled=true",
    "pipelines.yaml": "pipelines.enabled=true",
    "augmentations.yaml": "augmentations.enabled=true",
    "operator.yaml": "operator.enabled=true",
    "dashboard.yaml": "dashboard.enabled=true",
}
"""Files that hold the documents that a value adds to the default and to the files above."""
_OWN_NAMESPACE: Final = f"""\
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    app.kubernetes.io/name: fairlead
    app.kubernetes.io/part-of: fairlead
    # Pods that mount folders of the node (hostPath) need this level; no container of them is privileged.
    pod-security.kubernetes.io/enforce: privileged
    pod-security.kubernetes.io/audit: privileged
    pod-security.kubernetes.io/warn: privileged
"""


def template(helm: Path, *options: str, namespace: str = NAMESPACE) -> str:
    """Return helm's rendering of the chart, without a cluster; raise CalledProcessError if helm fails."""
    with tempfile.TemporaryDirectory() as home:
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))
        }
        homes = {f"HELM_{kind}_HOME": f"{home}/{kind}" for kind in ("CACHE", "CONFIG", "DATA")}
        command = [str(helm), "template", RELEASE, str(CHART), "--namespace", namespace, *options]
        done = subprocess.run(  # noqa: S603  # the lab's own helm
            command, capture_output=True, text=True, check=True, env={**environ, **homes}
        )
    return done.stdout


def manifests(helm: Path) -> dict[str, str]:
    """Return the files for `kubectl apply`: one for every API server, one for those with claims.

    The kind ModelProfile has its own file: `kubectl delete -f` of the rest must not delete every profile. So
    have scheduler, extender, operator and the kinds Pipeline and Augmentation, which not every cluster needs.
    """
    pieces = _pieces(helm)
    own = {name: [piece for piece in pieces if _kind(piece) == kind] for name, kind in _OWN_FILES.items()}
    rest = [piece for piece in pieces if _kind(piece) not in _OWN_FILES.values()]
    optional: dict[str, list[str]] = {}
    for name, value in _OPTIONAL.items():
        before = [*pieces, *(piece for added in optional.values() for piece in added)]
        optional[name] = _added(_pieces(helm, f"--set={value}"), before)
    # The admission policies go first, so that no agent ever runs without them.
    return {
        "fairlead.yaml": _file([_OWN_NAMESPACE, *sorted(rest, key=_is_not_a_policy)]),
        **{name: _file(documents) for name, documents in own.items()},
        **{name: _file(documents) for name, documents in optional.items()},
    }


def reference() -> str:
    """Return the table of the chart's values, from their schema and their defaults."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = [
        f"| `{path}` | {_format_default(value)} | {field['description']} |"
        for path, field, value in leaves(schema, values)
    ]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows, ""])


def leaves(
    schema: Mapping[str, Any], values: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield every value that can be set: its path, its schema and its default."""
    for name, field in schema["properties"].items():
        path = f"{above}{name}"
        if "properties" in field:
            yield from leaves(field, values[name], f"{path}.")
        else:
            yield path, field, values[name]


def with_table(page: str) -> str:
    """Return a page with the current table of values."""
    return _TABLE.sub(lambda _: reference(), page)


def _pieces(helm: Path, *options: str) -> list[str]:
    return [_plain(piece) for piece in _documents(template(helm, "--no-hooks", *options))]


def _added(pieces: Sequence[str], before: Sequence[str]) -> list[str]:
    """Return the additional documents, accounts and roles first: no pod runs without them."""
    new = [piece for piece in pieces if piece not in before]
    return sorted(new, key=lambda piece: _kind(piece) == "Deployment")


def _documents(text: str) -> list[str]:
    return [piece for piece in re.split(r"^---$", text, flags=re.MULTILINE) if piece.strip()]


def _plain(piece: str) -> str:
    """Return a document without Helm's own comments and annotations."""
    return _KEPT.sub("", _SOURCE.sub("", piece).strip() + "\n")


def _kind(piece: str) -> str:
    match = _KIND.search(piece)
    return match[1] if match else ""


def _is_not_a_policy(piece: str) -> bool:
    return not _kind(piece).startswith("ValidatingAdmissionPolicy")


def _file(pieces: Sequence[str]) -> str:
    return _NOTE + "---\n".join(pieces)


def _format_default(value: object) -> str:
    return "" if value in ("", [], {}) else f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def main() -> int:
    """Write every file; return the exit code."""
    from fairlead.errors import FairleadError  # noqa: PLC0415  # importing `template` needs no lab
    from fairlead.lab.build.prerequisites import build  # noqa: PLC0415  # see above
    from fairlead.lab.run.steps import StepPrinter  # noqa: PLC0415  # see above

    try:
        helm = build(["helm"], StepPrinter(sys.stderr))["helm"]
    except FairleadError as error:
        sys.stderr.write(f"{error}\n  {error.hint}\n")
        return error.exit_code
    for name, text in manifests(helm).items():
        (MANIFESTS / name).write_text(text, encoding="utf-8")
    REFERENCE.write_text(with_table(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
