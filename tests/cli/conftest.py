"""Commands, run as a user runs them."""

from pathlib import Path

import pytest

from fairlead.cli.main import main
from tests.cli.examples import Run


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command, as a user without profiles, and return its exit code and what it printed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def one(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return one
