"""`python -m fairlead.zoo`: networks as files."""

from pathlib import Path

import pytest

from fairlead.analyze import analyze
from fairlead.zoo.__main__ import main


def test_networks_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "models"
    assert main([str(folder), "thread", "points", "--batch", "2"]) == 0
    assert capsys.readouterr().out.split() == [str(folder / "thread.onnx"), str(folder / "points.onnx")]
    assert analyze(str(folder / "points.onnx"), {}).batch == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}", "resnet51"], "no network 'resnet51'"),
        (["{}", "--batch", "0"], "--batch 0"),
        (["{}/file/folder", "thread"], "Not a directory"),
    ],
)
def test_an_error_of_the_command_names_its_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        main([text.format(tmp_path) for text in arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
