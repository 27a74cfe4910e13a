"""Rules for tests that no linter checks: no patched part of fairlead, no sleep before a negative.

A test passes the world in as an argument. A test that something does not happen waits for an event that
proves that the work was done: a sleep proves at most that the machine was fast enough.
"""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
TESTS = sorted(
    path
    for path in (HOUSE / "tests").rglob("*.py")
    if path.parent.parent.name != "hosts" and "root" not in path.parts[len(HOUSE.parts) :]
)
PATCHED: dict[str, str] = {}
"""Tests that may patch fairlead, each with its reason."""
SLEEPY: dict[str, str] = {}
"""Tests that may sleep before a negative, each with its reason."""
_SLEEPS = ("asyncio.sleep", "time.sleep", "sleep")


def name(path: Path) -> str:
    """Return a path relative to the repository."""
    return str(path.relative_to(HOUSE))


def test_no_part_of_fairlead_is_patched() -> None:
    found = {name(path): list(patches(parse(path))) for path in TESTS}
    assert {path: lines for path, lines in found.items() if lines and path not in PATCHED} == {}
    assert [path for path in PATCHED if not found.get(path)] == [], "needs no exception any more"


def test_no_negative_is_asserted_after_a_sleep() -> None:
    found = {name(path): list(sleeps_before_assertions(parse(path))) for path in TESTS}
    assert {path: lines for path, lines in found.items() if lines and path not in SLEEPY} == {}
    assert [path for path in SLEEPY if not found.get(path)] == [], "needs no exception any more"


@cache
def parse(path: Path) -> ast.Module:
    """Return a file's tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def patches(module: ast.Module) -> Iterator[str]:
    """Yield each replacement of a part of fairlead: by a patcher's call, or by an assignment to a module."""
    ours = _imported(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _is_patch(node, ours):
            yield f"line {node.lineno}: {ast.unparse(node)}"
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and _root(target) in ours:
                yield f"line {target.lineno}: {ast.unparse(target)} = ..."


def _is_patch(call: ast.Call, ours: set[str]) -> bool:
    """Return whether a call is `setattr`, of a patcher or plain, or `patch`, for a part of fairlead."""
    called = ast.unparse(call.func).rpartition(".")[2]
    if called not in ("setattr", "setitem", "delattr", "patch", "object") or not call.args:
        return False
    first = call.args[0]
    if isinstance(first, ast.Constant):
        return isinstance(first.value, str) and first.value.startswith("fairlead.")
    return called != "patch" and ast.unparse(first).partition(".")[0] in ours


def _root(target: ast.Attribute) -> str:
    """Return the first name of an assignment's target."""
    return ast.unparse(target).partition(".")[0]


def _imported(module: ast.Module) -> set[str]:
    """Return the names under which a module imports parts of fairlead."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fairlead":
            found |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Import):
            named = (each for each in node.names if each.name.partition(".")[0] == "fairlead")
            found |= {each.asname or "fairlead" for each in named}
    return found


def sleeps_before_assertions(module: ast.Module) -> Iterator[str]:
    """Yield each sleep right before an assertion, or at the end of the block before one.

    A sleep of 0 only yields to other tasks, and a sleep at the end of a loop polls: neither counts.
    """
    for node in ast.walk(module):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, ())
            for one, other in pairwise(block) if isinstance(block, list) else ():
                if _ends_with_a_sleep(one) and _asserts(other):
                    yield f"line {one.lineno}: {ast.unparse(other)}"


def _ends_with_a_sleep(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.With | ast.AsyncWith):
        return _ends_with_a_sleep(statement.body[-1])
    value = statement.value if isinstance(statement, ast.Expr) else None
    call = value.value if isinstance(value, ast.Await) else value
    if not isinstance(call, ast.Call) or ast.unparse(call.func) not in _SLEEPS or not call.args:
        return False
    return not (isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)


def _asserts(statement: ast.stmt) -> bool:
    """Return whether a statement is an assertion; of a compound statement, whether its first one is."""
    if isinstance(statement, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor):
        return _asserts(statement.body[0])
    return isinstance(statement, ast.Assert)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("from fairlead.serve import follow\nmonkeypatch.setattr(follow, 'SELDOM', 1)", 1),
        ("from fairlead.serve import follow\nfollow.SELDOM = 1", 1),
        ("import fairlead.serve.follow\nfairlead.serve.follow.SELDOM = 1", 1),
        ("monkeypatch.setattr('fairlead.serve.follow.SELDOM', 1)", 1),
        ("with mock.patch('fairlead.serve.follow.SELDOM'):\n    pass", 1),
        ("from fairlead.cluster.client import Client\nmock.patch.object(Client, 'get')", 1),
        ("import sys\nmonkeypatch.setattr(sys, 'stdin', None)", 0),
        ("monkeypatch.setenv('HOME', '/')", 0),
        ("from tests.fakecluster.cluster import FakeCluster\ncluster.patch(NODES, 'a', {})", 0),
    ],
)
def test_a_patch_is_found(text: str, count: int) -> None:
    assert len(list(patches(ast.parse(text)))) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("time.sleep(0.2)\nassert not found", 1),
        ("await asyncio.sleep(0.2)\nassert scans == 1", 1),
        ("with opened():\n    time.sleep(1)\nassert said == []", 1),
        ("await asyncio.sleep(0)\nassert not current.cancelled()", 0),
        ("while not found:\n    time.sleep(0.1)\nassert found", 0),
        ("time.sleep(1)\nserver.stop()\nassert said", 0),
    ],
)
def test_a_sleep_is_found(text: str, count: int) -> None:
    assert len(list(sleeps_before_assertions(ast.parse(text)))) == count
