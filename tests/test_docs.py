"""The documentation matches the code: links resolve, metrics and commands are described."""

import json
import re
from pathlib import Path

import pytest
import yaml

from deploy import render
from deploy.image.recipes import RECIPES
from fairlead import metrics
from fairlead.cli.main import COMMANDS, main

ROOT = Path(__file__).parent.parent
_SET = re.compile(r"--set(?:-json)?[ =]\"?'?([^\s'\"`]+)")
_KEY = re.compile(r"(?:^|,)([a-zA-Z][\w.]*)=")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests/hosts/README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_every_metric_is_described() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text()
    source = "".join(path.read_text() for path in Path(metrics.__file__).parent.glob("*.py"))
    names = set(re.findall(r'"(fairlead_\w+)"', source))
    names |= {f"fairlead_accelerator_{metric.value}" for metric in metrics.page._MEASURED}
    names |= {f"DCGM_FI_DEV_{row[0]}" for row in metrics.dcgm_names._FIELDS}
    assert not sorted(name for name in names if f"`{name}`" not in page)


def test_every_command_is_described() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert not [name for name in COMMANDS if f"fairlead {name}" not in text]


def test_every_value_that_pages_set_is_in_the_chart() -> None:
    schema = json.loads((render.CHART / "values.schema.json").read_text())
    values = yaml.safe_load((render.CHART / "values.yaml").read_text())
    known = {path for path, _, _ in render.leaves(schema, values)}
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    named = {key for page in pages for words in _SET.findall(page.read_text()) for key in _KEY.findall(words)}
    assert named, "pages set values"
    assert not named - known


def test_every_page_installs_into_the_same_namespace() -> None:
    for page in PAGES:
        named = set(re.findall(r"(?:-n|--namespace)[ =](fairlead[a-z-]*)", page.read_text()))
        assert named <= {render.NAMESPACE}, page


def test_every_image_that_is_built_is_loaded_into_a_cluster() -> None:
    recipe = re.search(r"^image:.*\n((?:\t.+\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    made = re.findall(r"--archive (\S+)", recipe[1].replace("$(ARCH:%=-%)", ""))
    page = (ROOT / "docs/how-to/image.md").read_text()
    assert len(made) == len(RECIPES)
    first, _, rest = page.partition("## Load them into a cluster")
    assert not [
        path for path in made if path not in first or f"fairlead lab load {' '.join(made)}" not in rest
    ]


def test_pages_agree_on_what_an_uninstall_leaves() -> None:
    """The kind ModelProfile stays while there is a profile: the cleanup does that, and pages say so."""
    sentence = "every profile, and the kind as long as there is one"
    for page in ("reference/chart.md", "reference/profiles.md"):
        assert sentence in (ROOT / "docs" / page).read_text(), page
    install = (ROOT / "docs/how-to/install.md").read_text()
    assert "the kind ModelProfile if no profile exists" in install
    assert "leaves the kind and" not in "".join(page.read_text() for page in PAGES)


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
