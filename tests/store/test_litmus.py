"""litmus, the conformance tests of WebDAV, from Debian's package."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.debian import NotThereError, unpacked
from tests.store.stores import TOKEN, store

SUITES = {"basic": 16, "copymove": 13, "props": 30, "locks": 41, "http": 4}


def test_litmus_passes_all_of_its_tests(tmp_path: Path) -> None:
    try:
        root = unpacked("litmus", ("libneon27-gnutls", "litmus"))
    except NotThereError as error:
        pytest.skip(f"{error}: see CONTRIBUTING.md")
    (libraries,) = root.glob("usr/lib/*/libneon-gnutls.so.27")
    environ = {**os.environ, "LD_LIBRARY_PATH": str(libraries.parent)}
    passed = {}
    with store(tmp_path) as served:
        for suite in SUITES:
            line = (
                str(root / "usr/libexec/litmus" / suite),
                "--htdocs",
                str(root / "usr/share/litmus/htdocs"),
            )
            done = subprocess.run(
                (*line, served.url, "litmus", TOKEN),
                env=environ, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            summary = re.search(r"of (\d+) tests run: (\d+) passed, 0 failed", done.stdout)
            assert summary is not None, done.stdout.replace("\r", "\n")
            assert summary[1] == summary[2]
            passed[suite] = int(summary[2])
        assert served.said == []
    assert passed == SUITES
