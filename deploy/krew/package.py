"""Make the plugin's package for krew: an archive with the wheel, and the manifest with its checksum.

    python deploy/krew/package.py --wheel dist/fairlead-0.1.0-py3-none-any.whl --out dist --url https://...

The same wheel gives the same bytes.
"""

import argparse
import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

import yaml

from fairlead import __version__

HOUSE: Final = Path(__file__).parents[2]
LAUNCHER: Final = Path(__file__).with_name("kubectl-fairlead")
ARCHIVE: Final = f"kubectl-fairlead-{__version__}.tar.gz"
MANIFEST: Final = "fairlead.yaml"
NOWHERE: Final = "https://archive.invalid"
"""Where the archive is, if no address is given: it is then installed with `--archive`."""
_CAVEATS: Final = """\
The first use installs Python packages into ~/.local/share/fairlead; it needs Python 3.11 with venv.
For completion link kubectl_complete-fairlead into a folder on PATH:
  ln -s "${KREW_ROOT:-$HOME/.krew}/store/fairlead/v@VERSION@/kubectl_complete-fairlead" ~/.local/bin/
"""


def write_package(wheel: Path, folder: Path, url: str = NOWHERE) -> tuple[Path, Path]:
    """Write the archive and the manifest; return their paths."""
    archive, manifest = folder / ARCHIVE, folder / MANIFEST
    data = pack(wheel)
    folder.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(data)
    document = krew_manifest(hashlib.sha256(data).hexdigest(), f"{url.rstrip('/')}/{ARCHIVE}")
    manifest.write_text(yaml.safe_dump(document, sort_keys=False, width=110), encoding="utf-8")
    return archive, manifest


def pack(wheel: Path) -> bytes:
    """Return the archive."""
    launcher = LAUNCHER.read_text(encoding="utf-8").replace("@VERSION@", __version__).encode()
    files = {
        "kubectl-fairlead": (launcher, 0o755),
        "kubectl_complete-fairlead": (launcher, 0o755),
        "LICENSE": ((HOUSE / "LICENSE").read_bytes(), 0o644),
        "requirements.txt": ((HOUSE / "requirements/scheduler.txt").read_bytes(), 0o644),
        wheel.name: (wheel.read_bytes(), 0o644),
    }
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, (data, mode) in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def krew_manifest(digest: str, uri: str) -> dict[str, Any]:
    """Return krew's manifest of the plugin."""
    systems = {"key": "os", "operator": "In", "values": ["linux", "darwin"]}
    platform = {
        "selector": {"matchExpressions": [systems]},
        "uri": uri,
        "sha256": digest,
        "files": [{"from": "*", "to": "."}],
        "bin": "kubectl-fairlead",
    }
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "fairlead"},
        "spec": {
            "version": f"v{__version__}",
            "shortDescription": "Explain waiting pods, and show accelerators and their use",
            "description": "Nodes and accelerators of a cluster with fairlead, what is requested and used of "
            "them, why a pod waits and what would help, sizes of workloads, pipelines and augmentations.",
            "caveats": _CAVEATS.replace("@VERSION@", __version__),
            "platforms": [platform],
        },
    }


def main() -> None:
    """Make the package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", metavar="FILE", type=Path, required=True, help="the wheel of this version")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("dist"), help="where to write")
    parser.add_argument("--url", default=NOWHERE, help="the folder from which the archive is downloaded")
    options = parser.parse_args()
    for path in write_package(options.wheel, options.out, options.url):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
