"""Write what follows from the chart: manifests for `kubectl apply`, and the table of its values.

`make manifests` runs it; a test fails where the committed files are not what it would write.
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
_APART: Final = {
    "deviceclasses.yaml": "DeviceClass",
    "modelprofiles.yaml": "CustomResourceDefinition",
}
_ON_TOP: Final = {
    "scheduler.yaml": "scheduler.enabled=true,scheduler.admission.enabled=false",
    "extender.yaml": "extender.enabled=true",
}
"""Files that hold what a value adds to the default."""
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
    """Return what helm makes of the chart, without a cluster; raise CalledProcessError where it refuses."""
    with tempfile.TemporaryDirectory() as home:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
        places = {f"HELM_{kind}_HOME": f"{home}/{kind}" for kind in ("CACHE", "CONFIG", "DATA")}
        command = [str(helm), "template", RELEASE, str(CHART), "--namespace", namespace, *options]
        done = subprocess.run(  # noqa: S603  # the lab's own helm
            command, capture_output=True, text=True, check=True, env={**own, **places}
        )
    return done.stdout


def manifests(helm: Path) -> dict[str, str]:
    """Return the files for `kubectl apply`: one for every server, one for those that know claims.

    The kind of profiles has its own: `kubectl delete -f` of the rest must not take every profile along. So
    have scheduler and extender, which not every cluster wants.
    """
    pieces = _pieces(helm)
    apart = {name: [each for each in pieces if _kind(each) == kind] for name, kind in _APART.items()}
    rest = [piece for piece in pieces if _kind(piece) not in _APART.values()]
    # Guards go first, so that no agent ever runs without them.
    return {
        "fairlead.yaml": _file([_OWN_NAMESPACE, *sorted(rest, key=_is_guarded)]),
        **{name: _file(each) for name, each in apart.items()},
        **{name: _file(_added(_pieces(helm, f"--set={value}"), pieces)) for name, value in _ON_TOP.items()},
    }


def reference() -> str:
    """Return the table of the chart's values, from their schema and their defaults."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = [
        f"| `{path}` | {_shown(value)} | {about['description']} |"
        for path, about, value in leaves(schema, values)
    ]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows, ""])


def leaves(
    schema: Mapping[str, Any], values: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield every value that can be set: its path, its schema and its default."""
    for name, about in schema["properties"].items():
        path = f"{above}{name}"
        if "properties" in about:
            yield from leaves(about, values[name], f"{path}.")
        else:
            yield path, about, values[name]


def with_table(page: str) -> str:
    """Return a page with the table of values as it is now."""
    return _TABLE.sub(lambda _: reference(), page)


def _pieces(helm: Path, *options: str) -> list[str]:
    return [_plain(piece) for piece in _documents(template(helm, "--no-hooks", *options))]


def _added(pieces: Sequence[str], before: Sequence[str]) -> list[str]:
    """Return what was not there before, accounts and roles first: no pod runs without them."""
    new = [piece for piece in pieces if piece not in before]
    return sorted(new, key=lambda piece: _kind(piece) == "Deployment")


def _documents(text: str) -> list[str]:
    return [piece for piece in re.split(r"^---$", text, flags=re.MULTILINE) if piece.strip()]


def _plain(piece: str) -> str:
    """Return a document without what is Helm's alone."""
    return _KEPT.sub("", _SOURCE.sub("", piece).strip() + "\n")


def _kind(piece: str) -> str:
    found = _KIND.search(piece)
    return found[1] if found else ""


def _is_guarded(piece: str) -> bool:
    return not _kind(piece).startswith("ValidatingAdmissionPolicy")


def _file(pieces: Sequence[str]) -> str:
    return _NOTE + "---\n".join(pieces)


def _shown(value: object) -> str:
    return "" if value in ("", [], {}) else f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def main() -> int:
    """Write every file; return the exit code."""
    from fairlead.errors import FairleadError  # noqa: PLC0415  # what only renders needs no lab
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
