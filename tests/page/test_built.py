"""The built page of the dashboard: it is what its sources give, small, and needs nothing from outside."""

import gzip
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent.parent
SOURCES = HOUSE / "dashboard"
BUILT = HOUSE / "src/fairlead/serve/dashboard/static"
LARGEST = 150_000
"""Bytes after gzip of everything that the page loads."""


def files(root: Path) -> dict[str, bytes]:
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


class Tags(HTMLParser):
    """The tags of a page, with the text inside scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in {"script", "style"}:
            self.inline += data.strip()


def test_the_page_has_no_script_or_style_of_its_own_and_loads_only_hashed_files() -> None:
    page = Tags()
    page.feed((BUILT / "index.html").read_text(encoding="utf-8"))
    assert page.inline == ""
    assert not any(name == "style" or name.startswith("on") for _, attrs in page.tags for name in attrs)
    loaded = [attrs.get("src") or attrs.get("href") for tag, attrs in page.tags if tag in {"script", "link"}]
    assert len(loaded) == 3
    for address in loaded:
        assert re.fullmatch(r"/assets/[\w.]+-[\w-]{8}\.(js|css|svg)", address or "")
        assert (BUILT / str(address)[1:]).is_file()


def test_the_page_is_small_and_asks_no_other_host() -> None:
    built = files(BUILT)
    assert sum(len(gzip.compress(data, 9)) for data in built.values()) < LARGEST
    for name, data in built.items():
        if name != "LICENSES.txt":
            hosts = set(re.findall(r"https?://([\w.-]+)", data.decode()))
            assert hosts <= {"www.w3.org"}, f"{name} names {hosts}"


def test_the_licences_of_what_is_in_the_page_travel_with_it() -> None:
    text = (BUILT / "LICENSES.txt").read_text(encoding="utf-8")
    packages = json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))
    for name, version in packages["dependencies"].items():
        assert f"{name} {version}\n" in text
    assert text.count("Permission is hereby granted") == len(packages["dependencies"])


def test_the_lock_names_no_address() -> None:
    lock = (SOURCES / "package-lock.json").read_text(encoding="utf-8")
    assert '"integrity"' in lock
    assert '"resolved"' not in lock
    assert "https://" not in re.sub(r'"url": "[^"]*"', "", lock)


def test_the_sources_give_the_committed_bytes(tmp_path: Path) -> None:
    node = shutil.which("node")
    vite = SOURCES / "node_modules/vite/bin/vite.js"
    if node is None or not vite.is_file():
        pytest.skip("needs Node and the packages of dashboard/package-lock.json: make dashboard")
    command = [node, str(vite), "build", "--outDir", str(tmp_path), "--logLevel", "warn"]
    subprocess.run(command, cwd=SOURCES, check=True, env={"PATH": os.environ["PATH"]}, timeout=120)
    built, committed = files(tmp_path), files(BUILT)
    assert built.keys() == committed.keys(), "run: make dashboard"
    assert [name for name in built if built[name] != committed[name]] == [], "run: make dashboard"
