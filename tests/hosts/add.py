"""Make a test host of a captured machine: `add.py NAME TARBALL`, then correct what it wrote."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from fairlead.catalog import load
from fairlead.detect import detect
from fairlead.detect.capture import open_capture, read_gpus
from fairlead.host import Host

HERE = Path(__file__).parent
KEEP = ".keep"
"""Stands in folders that would be empty, because git drops those."""
FIELDS = (
    "id", "model", "name", "candidates", "kind", "state", "reason", "memory_bytes", "unified_memory",
    "peak_ops", "effective_ops", "power_w", "bus", "driver", "node", "engines",
)  # fmt: skip


def draft(root: Path) -> dict[str, Any]:
    """Return what discovery says today, as a first draft of what it should say."""
    host = Host(str(root))
    found = detect(host, load(), read_gpus(host)).to_json()
    real = [acc for acc in found["accelerators"] if acc["kind"] != "cpu"]
    return {
        "about": "",
        "source": f"captured on {found['host']['board'] or 'a machine'}",
        "accelerators": [{field: acc[field] for field in FIELDS} for acc in real],
        "unknown": [{"ids": odd["ids"], "bus": odd["bus"]} for odd in found["unknown"]],
    }


def main(name: str, tarball: str) -> None:
    """Unpack the tarball and write the draft beside it."""
    root = HERE / name / "root"
    with open_capture(tarball) as room:
        shutil.copytree(room, root, symlinks=True)
    for folder, folders, files in os.walk(root):
        if not folders and not files:
            Path(folder, KEEP).touch()
    place = HERE / name / "expected.json"
    place.write_text(json.dumps(draft(root), indent=2, ensure_ascii=False) + "\n")
    print(f"{place}: say in 'about' what the host shows, and correct what is not true of the machine")


if __name__ == "__main__":
    main(*sys.argv[1:])
