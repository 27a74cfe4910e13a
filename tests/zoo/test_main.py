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
    ("arguments", "said"),
    [
        (["{}", "resnet51"], "no network 'resnet51'"),
        (["{}", "--batch", "0"], "--batch 0"),
        (["{}/file/folder", "thread"], "Not a directory"),
    ],
)
def test_what_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        main([text.format(tmp_path) for text in arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
