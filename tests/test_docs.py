"""The documentation keeps up with the code: links lead somewhere, metrics and commands are described."""

import re
from pathlib import Path

import pytest

from fairlead import metrics
from fairlead.cli.main import COMMANDS, main

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests/hosts/README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_every_metric_is_described() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text()
    source = Path(metrics.__file__).read_text()
    names = set(re.findall(r'"(fairlead_\w+)"', source))
    names |= {f"fairlead_accelerator_{metric.value}" for metric in metrics._MEASURED}
    names |= {f"DCGM_FI_DEV_{row[0]}" for row in metrics._DCGM}
    assert not sorted(name for name in names if f"`{name}`" not in page)


def test_every_command_is_described() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert not [name for name in COMMANDS if f"fairlead {name}" not in text]


def test_readme_shows_the_two_commands_on_its_first_screen() -> None:
    first = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])
    assert "make demo" in first
    assert "make test" in first


def test_readme_shows_a_true_session(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = re.search(r"\$ .venv/bin/fairlead (.*)\n((?:.+\n)+)```", (ROOT / "README.md").read_text())
    assert session is not None
    monkeypatch.chdir(ROOT)
    main(session[1].split())
    assert capsys.readouterr().out == session[2]
