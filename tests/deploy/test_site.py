"""The documentation site, built once: every link leads somewhere, pages are reached, search finds words."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from deploy.site.build import build, main
from deploy.site.links import check_site
from deploy.site.markdown import render, slug
from deploy.site.search import words_of
from fairlead.cli.main import COMMANDS
from tests.test_reference import options_of

pytestmark = pytest.mark.xdist_group("site")
ROOT = Path(__file__).parents[2]
FIND = """
global.window = {};
require(process.argv[1]);
const { find } = require(process.argv[2]);
console.log(JSON.stringify(process.argv.slice(3).map((query) => find(window.fairleadIndex, query))));
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) > 200
    return folder


def test_every_link_leads_somewhere_and_every_page_is_reached(site: Path) -> None:
    assert check_site(site) == []


def test_every_page_of_the_documentation_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in ROOT.glob("docs/*/*.md")}
    pages = {path.with_name("index.html") if path.name == "README.html" else path for path in pages}
    assert not sorted(str(path) for path in pages if not (site / path).is_file())
    assert (site / "files/deploy/chart/files/prometheus/rules.yaml").is_file()


class PageReader(HTMLParser):
    """Reads what is checked of each page."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        if tag == "style" or (tag == "script" and "src" not in values):
            self.faults.append(f"inline {tag}")
        self.faults += [f"inline {name}" for name in values if name == "style" or name.startswith("on")]
        loaded = values.get("src") or (values.get("href") if tag == "link" else "") or ""
        if loaded.startswith(("http:", "https:", "//")):
            self.faults.append(f"from elsewhere: {loaded}")
        if tag == "img" and not values.get("alt"):
            self.faults.append("an image without a text")


def test_pages_need_no_network_and_have_no_inline_script(site: Path) -> None:
    for path in site.rglob("*.html"):
        reader = PageReader()
        reader.feed(path.read_text(encoding="utf-8"))
        assert reader.faults == [], path
        assert [reader.tags.count(tag) for tag in ("h1", "main", "nav", "title")] == [1, 1, 1, 1], path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_generated_page_has_every_option_of_a_command(site: Path, command: str) -> None:
    text = (site / f"generated/command-{command}.html").read_text(encoding="utf-8")
    missing = [
        names for names in options_of(command) if any(f"<code>{name}</code>" not in text for name in names)
    ]
    assert missing == [("-h", "--help")]


def test_generated_pages_have_fields_values_metrics_and_names(site: Path) -> None:
    wanted = {
        "resource-pipelines": "spec.stages[].name",
        "resource-augmentations": "spec.device",
        "chart": "scheduler.enabled",
        "metrics": "fairlead_accelerator_info",
        "keys": "fairlead.dev/gpu-mem",
        "kubectl": "--kubeconfig",
    }
    for page, word in wanted.items():
        assert f"<code>{word}</code>" in (site / f"generated/{page}.html").read_text(encoding="utf-8"), page


def test_the_index_knows_the_words_of_pages(site: Path) -> None:
    text = (site / "assets/index.js").read_text(encoding="utf-8")
    assert len(text) < 500_000
    index = json.loads(text.removeprefix("window.fairleadIndex=").removesuffix(";\n"))
    number, targets = 0, []
    for difference in index["words"]["preemption"]:
        number += difference
        targets.append(index["pages"][number][0])
    assert "reference/scheduler.html" in targets
    assert targets == sorted(set(targets), key=targets.index)


def test_search_finds_pages(site: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    queries = ("preemption", "gpu-mem", "calibr", "debug dump", "xyzzyx", "")
    argv = [node, "-e", FIND, str(site / "assets/index.js"), str(site / "assets/search.js"), *queries]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    hits = dict(zip(queries, json.loads(done.stdout), strict=True))
    found = {query: [each["href"].partition("#")[0] for each in answer] for query, answer in hits.items()}
    assert "reference/scheduler.html" in found["preemption"][:3]
    assert "how-to/schedule-pods.html" in found["gpu-mem"]
    assert "how-to/calibrate.html" in found["calibr"][:5], "the last word may be a beginning"
    assert "reference/debug-dump.html" in found["debug dump"][:3]
    assert (found["xyzzyx"], found[""]) == ([], [])
    assert all((site / href).is_file() for answer in found.values() for href in answer)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        (
            "index.html",
            '<a href="a.html#none">a</a><a href="b.html">b</a>',
            "index.html: a.html#none: there is no such heading",
        ),
        (
            "index.html",
            '<a href="none.html">x</a><a href="a.html"></a><a href="b.html"></a>',
            "index.html: none.html: there is no such page",
        ),
        ("index.html", '<a href="a.html">a</a>', "b.html: no page leads to it"),
    ],
)
def test_broken_links_are_found(tmp_path: Path, name: str, text: str, fault: str) -> None:
    (tmp_path / "a.html").write_text('<h1 id="here">a</h1>')
    (tmp_path / "b.html").write_text('<a href="b.html#x">itself</a><p id="x">')
    (tmp_path / name).write_text(text)
    assert check_site(tmp_path) == [fault]


def test_headings_get_the_anchors_of_code_hosts() -> None:
    taken: set[str] = set()
    assert [slug(text, taken) for text in ("What's `new`, then?", "A b", "A b")] == [
        "whats-new-then",
        "a-b",
        "a-b-1",
    ]
    done = render("# T\n\n## `x` of *y*\n\n| a |\n|---|\n| <b> |\n", str)
    assert [each.anchor for each in done.headings] == ["t", "x-of-y"]
    assert "&lt;b&gt;" in done.html, "a page has no HTML of its own"
    assert words_of("The GPU-mem of v1.37") == {"gpu-mem", "gpu", "mem", "v1.37", "v1", "37"}


def test_only_a_site_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.setattr("sys.argv", ["build", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=re.escape("not a site that this program built")):
        main()
    assert (tmp_path / "notes.txt").read_text() == "mine"
