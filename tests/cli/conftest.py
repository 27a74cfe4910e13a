"""A fixture that runs a command as a user does."""

from pathlib import Path

import pytest

from fairlead.cli.main import main
from tests.cli.examples import Run


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command, as a user without profiles; return its exit code, stdout and stderr."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def run_command(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run_command
