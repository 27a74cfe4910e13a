"""The names that Python 3.10 lacks behave alike on every Python: these tests run on 3.10 as well."""

import ast
import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fairlead import compat
from fairlead.cli.shell.options import check_python
from fairlead.compat import aio, toml
from fairlead.compat.times import UTC, parse_iso
from fairlead.errors import MissingPartError

SOURCES = Path(compat.__file__).parents[1]
NEWER = {
    "asyncio": {"TaskGroup", "timeout", "timeout_at", "Runner", "Barrier"},
    "datetime": {"UTC"},
    "enum": {"StrEnum", "ReprEnum", "verify", "member", "nonmember"},
    "hashlib": {"file_digest"},
    "contextlib": {"chdir"},
    "typing": {"Self", "Never", "assert_never", "LiteralString", "Unpack", "Required", "NotRequired"},
}
"""The names that came with Python 3.11, by module."""
WORDS = {"tomllib", "ExceptionGroup", "except*"}.union(*NEWER.values())
CONTROL_PLANE = (
    *("serve/scheduler/", "serve/extender/", "serve/operator/", "serve/follow.py"),
    "serve/dashboard/cluster/",
    *("serve/machine/runner.py", "serve/machine/sender.py", "serve/web/request_bodies.py"),
)
"""Programs that run in images with a Python of their own: `check_python` refuses to start them on 3.10."""


class Colour(compat.StrEnum):
    RED = "red"


def test_a_member_is_formatted_as_its_value() -> None:
    assert (str(Colour.RED), f"{Colour.RED:>5}", Colour("red")) == ("red", "  red", Colour.RED)
    assert {"red": 1}[Colour.RED] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-15T23:40:07Z", datetime(2026, 11, 15, 23, 40, 7, tzinfo=UTC)),
        ("2026-11-15T23:40:07.5Z", datetime(2026, 11, 15, 23, 40, 7, 500000, tzinfo=UTC)),
        ("2026-11-15T23:40:07.123456789Z", datetime(2026, 11, 15, 23, 40, 7, 123456, tzinfo=UTC)),
        ("2026-11-16T00:40:07.250+01:00", datetime(2026, 11, 15, 23, 40, 7, 250000, tzinfo=UTC)),
    ],
)
def test_times_of_the_api(text: str, expected: datetime) -> None:
    assert parse_iso(text) - expected == timedelta(0)


def test_invalid_times() -> None:
    with pytest.raises(ValueError, match="isoformat"):
        parse_iso("soon")


def test_toml() -> None:
    assert toml.loads("a = 1") == {"a": 1}
    with pytest.raises(toml.TOMLDecodeError):
        toml.loads("a =")


@pytest.mark.parametrize("at", [False, True])
def test_an_expired_timeout_is_a_timeout_error(at: bool) -> None:
    async def wait() -> None:
        now = asyncio.get_running_loop().time()
        async with aio.timeout_at(now) if at else aio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_a_timeout_of_a_library_is_in_the_list() -> None:
    async def wait() -> None:
        await asyncio.wait_for(asyncio.Event().wait(), 0)

    with pytest.raises(aio.TIMEOUTS):
        asyncio.run(wait())


def test_the_control_plane_names_the_python_that_it_needs() -> None:
    check_python("scheduler", (3, 11))
    with pytest.raises(
        MissingPartError, match=r"serve scheduler needs Python 3\.11 or newer, this is Python 3\.10"
    ):
        check_python("scheduler", (3, 10))


def newer(path: Path) -> set[str]:
    """Return the names in a file that Python 3.10 lacks."""
    text = path.read_text(encoding="utf-8")
    names: set[str] = set()
    if not any(word in text for word in WORDS):
        return names
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module in NEWER:
            names |= {name.name for name in node.names} & NEWER[node.module]
        elif isinstance(node, ast.Import):
            names |= {name.name for name in node.names} & {"tomllib"}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names |= {node.attr} & NEWER.get(node.value.id, set())
        elif isinstance(node, ast.Name):
            names |= {node.id} & {"ExceptionGroup", "BaseExceptionGroup"}
        elif type(node).__name__ == "TryStar":
            names.add("except*")
    return names


def test_only_the_control_plane_needs_a_newer_python() -> None:
    names = {str(path.relative_to(SOURCES)): newer(path) for path in sorted(SOURCES.rglob("*.py"))}
    wrong = {
        name: newer_names
        for name, newer_names in names.items()
        if newer_names and not name.startswith((*CONTROL_PLANE, "compat/"))
    }
    assert not wrong, "import it from fairlead.compat"
    assert "TaskGroup" in names["serve/scheduler/driver.py"], "the check finds a known use"
