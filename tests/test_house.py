"""The house rules that no linter knows: sizes, docstrings, one version, and no names of machines or hosts."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from fairlead import __version__
from fairlead.compat import toml

HOUSE = Path(__file__).parent.parent
SOURCES = sorted((HOUSE / "src").rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 400, 40
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    """Return a path as the house knows it."""
    return str(path.relative_to(HOUSE))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_files_and_functions_are_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            assert (node.end_lineno or 0) - node.lineno + 1 <= LONGEST_FUNCTION, node.name


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_everything_public_says_what_it_is(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(module)
    homes: list[ast.Module | ast.ClassDef] = [module]
    homes += [node for node in module.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
    for home in homes:
        for node in home.body:
            if isinstance(node, ast.ClassDef | Function) and node.name[0] != "_":
                assert ast.get_docstring(node), node.name


KEY = re.compile(r"\bfairlead\.dev(/[a-z][\w.-]*)?(?![\w.-])")


def texts(path: Path) -> list[str]:
    """Return the string literals of a module; what documents a name is none of them."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    strings = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [str(node.value) for node in strings if id(node) not in documents]


def test_each_key_is_written_once() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for text in texts(path):
            for found in KEY.finditer(text):
                places.setdefault(found[0], []).append(name(path))
    assert {key: where for key, where in places.items() if len(where) > 1} == {}, "use fairlead.keys"


def test_libraries_are_imported_by_statements_that_import_linter_sees() -> None:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
                assert not isinstance(node.args[0], ast.Constant), f"{name(path)}: {ast.unparse(node)}"


def test_the_page_of_the_house_shows_every_floor() -> None:
    page = (HOUSE / "docs" / "explanation" / "house.md").read_text(encoding="utf-8")
    drawn = page.split("```")[-2].replace("\n", " ").split(">")
    project = toml.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    floors = [layer.replace("fairlead.", "").replace("(", "").replace(")", "") for layer in layers]
    assert [_rooms(floor) for floor in drawn] == [_rooms(floor) for floor in floors]


def _rooms(floor: str) -> list[str]:
    return sorted(room.strip() for room in floor.split("|"))


def test_the_page_of_the_house_lists_every_room() -> None:
    page = (HOUSE / "docs" / "explanation" / "house.md").read_text(encoding="utf-8")
    rooms = re.split(r"^(?:src|lab|deploy)/.*$", page, flags=re.MULTILINE)[1]
    listed = set(re.findall(r"[\w]+(?:\.py|/)", "".join(line[:26] for line in rooms.splitlines())))
    sources = HOUSE / "src" / "fairlead"
    there = {f"{each.name}/" for each in sources.iterdir() if (each / "__init__.py").is_file()}
    assert listed >= there | {each.name for each in sources.glob("[!_]*.py")}


SHARED = frozenset(
    (
        "Affinity",
        "Container",
        "Device",
        "Node",
        "NodeStatus",
        "Pod",
        "PodSpec",
        "PodStatus",
        "Taint",
        "Toleration",
    )
)
"""Names of Kubernetes that several rooms give to as much of the type as each needs; ten at most."""


def test_a_public_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name(path))
    assert len(SHARED) <= 10
    assert {key for key, where in places.items() if len(where) > 1} == SHARED, places


MOST_FILES = 24


def test_a_room_holds_few_files() -> None:
    rooms = {path.parent for path in SOURCES} - {HOUSE / "src" / "fairlead"}
    full = {name(room): count for room in rooms if (count := len(list(room.glob("*.py")))) > MOST_FILES}
    assert full == {}, "give it rooms by subject"


def test_the_version_is_said_once() -> None:
    project = toml.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__


def tracked() -> list[Path]:
    """Return every text file of the repository."""
    done = subprocess.run(
        ["git", "-C", str(HOUSE), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    return [path for line in done.stdout.split("\0") if line and (path := HOUSE / line).is_file()]


ODD = re.compile(
    r"\b(?:who|whom|nobody|somebody|anew|so many|(?:is|are|was|were|be|been) told)\b", re.IGNORECASE
)
"""Words that hide the subject of a sentence, which is a pod, a claim or a node; of people they are right."""
PROSE = (".py", ".md", ".yaml", ".tpl", ".toml")
ODD_PER_THOUSAND_LINES = 0.5


def test_sentences_speak_of_pods_and_nodes_not_of_somebody() -> None:
    found, lines = 0, 0
    for path in tracked():
        if path.suffix in PROSE and not name(path).startswith(("tests/hosts/", "requirements/")):
            text = path.read_text(encoding="utf-8")
            found += len(ODD.findall(text))
            lines += text.count("\n")
    assert found <= ODD_PER_THOUSAND_LINES * lines / 1000, f"{found} in {lines} lines"


SLASH, DOT = "/", r"\."
FOREIGN = {  # spelled so that this file does not name them either
    "a folder of someone's machine": rf"{SLASH}work/(?:main|shared)\b|{SLASH}root/",
    "a package registry": rf"\bpypi{DOT}org|\bpythonhosted{DOT}org|index-url\s+https?:|\bregistry{DOT}npmjs",
}
ALLOWED = ("tests/hosts/", "tests/detect/", "LICENSE")
"""Captured machines and worlds hold paths of machines that do not exist."""


@pytest.mark.parametrize("what", FOREIGN)
def test_no_file_names_what_only_one_machine_has(what: str) -> None:
    pattern = re.compile(FOREIGN[what])
    found = []
    for path in tracked():
        if name(path).startswith(ALLOWED):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name(path)}: {hit[0]}" for hit in pattern.finditer(text)]
    assert found == []


def test_a_waiver_names_its_rule() -> None:
    waiver = re.compile(r"#\s*(noqa|type: ignore)(?P<rest>.*)")
    for path in SOURCES:
        for line in path.read_text(encoding="utf-8").splitlines():
            if found := waiver.search(line):
                assert re.match(r"(: [A-Z]+[0-9]+|\[[\w-]+(, ?[\w-]+)*\])", found["rest"]), line
