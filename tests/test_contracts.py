"""Every contract of import-linter fails in a copy of the sources that breaks it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.compat import toml

HOUSE = Path(__file__).parent.parent
CONTRACTS = toml.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
    "contracts"
]
LIBRARIES = (
    "aiohttp",
    "av",
    "cheroot",
    "cryptography",
    "grpclib",
    "highspy",
    "hpack",
    "msgspec",
    "numpy",
    "onnxruntime",
    "starlette",
    "tantivy",
    "uvicorn",
    "wsgidav",
    "yaml",
)
BREACHES = {  # a file of the copy: what is added to it
    "attic.py": '"""A room on no floor."""\n',
    "serve/attic.py": '"""A program on no floor."""\n',
    "telemetry.py": "".join(
        f"\ndef open_{name}() -> None:\n    import {name}  # noqa: PLC0415\n" for name in LIBRARIES
    ),
    "serve/extender/metrics.py": "\nfrom fairlead.serve import scheduler\n",
    "manifest/files/text.py": "\ndef guess() -> None:\n    from fairlead.estimate.predict import estimate\n",
    "limiter/process.py": "\nfrom fairlead.host import Host\n",
    "device/place.py": "\nfrom fairlead.ledger.place import StateDirectory\n",
    "warden/rules.py": "\nfrom fairlead.offer import DRIVER\n",
    "attribution/procfs.py": "\nfrom fairlead.host import Host\n",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of import-linter for a copy of the sources in which every contract is broken."""
    pytest.importorskip("importlinter")
    copy = tmp_path_factory.mktemp("house")
    shutil.copytree(HOUSE / "src", copy / "src", ignore=shutil.ignore_patterns("*.toml", "__pycache__"))
    shutil.copy(HOUSE / "pyproject.toml", copy)
    for name, text in BREACHES.items():
        with (copy / "src" / "fairlead" / name).open("a", encoding="utf-8") as file:
            file.write(text)
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", command, "--no-cache"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_a_broken_contract_fails(report: str, contract: dict[str, object]) -> None:
    assert f"{contract['name']} BROKEN" in report


def test_every_outside_library_has_a_contract() -> None:
    closed = {name for contract in CONTRACTS for name in contract.get("forbidden_modules", ())}
    assert closed >= set(LIBRARIES)
