"""Sessions of one machine: their record, their programs, what keeps those running, their conditions."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.augment.conditions import SessionView, conditions, is_ready
from fairlead.augment.keeper import SessionKeeper
from fairlead.augment.place import SESSION, LocalSession, SessionPlace, resized
from fairlead.augment.programs import SessionProgram, session_programs
from fairlead.augmentation import AugmentationSpec, StorageRequest
from fairlead.errors import SessionError
from fairlead.units import Bytes

NOW = 1_800_000_000.0
SPEC = AugmentationSpec("shop", "pi", storage=StorageRequest(Bytes(1 << 30)), env={"MODE": "fast"})
SESSION_HERE = LocalSession(SPEC, "127.0.0.1", 8443, "ab" * 32, created=NOW)
TIERED = replace(
    SESSION_HERE, slow="/slow", spec=replace(SPEC, storage=StorageRequest(Bytes(100), Bytes(10)))
)
WORKING = replace(SESSION_HERE, job="7", spec=replace(SPEC, command=("app", "--fast"), digest="sha256:1"))


@pytest.mark.parametrize("session", [SESSION_HERE, TIERED, WORKING, resized(SESSION_HERE, Bytes(5))])
def test_a_session_is_read_as_it_was_written(session: LocalSession) -> None:
    assert SESSION.decode(SESSION.encode(session)) == session


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:8443"),
        ("0.0.0.0", "https://127.0.0.1:8443"),
        ("", "https://127.0.0.1:8443"),
        ("::1", "https://[::1]:8443"),
        ("server", "https://server:8443"),
    ],
)
def test_this_machine_reaches_its_store(host: str, url: str) -> None:
    assert replace(SESSION_HERE, host=host).url == url


def test_two_tiers_need_a_second_program_and_a_trace() -> None:
    place = SessionPlace("shop", "/s")
    (store,) = session_programs(place, SESSION_HERE)
    assert store.name == "store"
    assert "--also" not in store.words
    store, tier = session_programs(place, TIERED)
    assert store.words[-4:] == ("--also", "/slow", "--trace", "/s/trace.csv")
    assert tier.words[:8] == ("serve", "tier", "--fast", "/s/data", "--slow", "/slow", "--capacity", "10")


@pytest.mark.parametrize("name", ["", "Shop", "a/b", "..", "a b", "x" * 64])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(SessionError, match="not a name of a session"):
        SessionPlace.of({"HOME": "/h"}, name)


def test_programs_that_end_are_started_again_later_and_later(tmp_path: Path) -> None:
    started: list[str] = []

    def start(_: SessionPlace, program: SessionProgram) -> "subprocess.Popen[bytes]":
        started.append(program.name)
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        return process

    lines: list[str] = []
    place = SessionPlace("shop", str(tmp_path))
    keeper = SessionKeeper(place, (SessionProgram("store", ()),), lines.append, start)
    now, dues = 0.0, []
    keeper.step(now)
    for _ in range(7):
        due = keeper.step(now)
        assert due is not None
        dues.append(due - now)
        assert keeper.step(due - 0.001) == due
        now = due
        keeper.step(now)
    assert dues == [1, 2, 4, 8, 16, 30, 30]
    assert started == ["store"] * 8
    keeper.step(now + 100)  # it ran for long: it has not failed at its start
    assert started == ["store"] * 9
    assert lines[0] == "store ended with 0; it is started again in 1 s"


def test_a_program_that_is_to_run_otherwise_is_started_again(tmp_path: Path) -> None:
    started: list[tuple[str, ...]] = []

    def start(_: SessionPlace, program: SessionProgram) -> "subprocess.Popen[bytes]":
        started.append(program.words)
        return subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])

    lines: list[str] = []
    programs = (SessionProgram("store", ("a",)), SessionProgram("tier", ("--capacity", "1")))
    keeper = SessionKeeper(SessionPlace("shop", str(tmp_path)), programs, lines.append, start)
    try:
        keeper.step(0.0)
        store, tier = (each.process for each in keeper.kept)
        assert store is not None
        assert tier is not None
        keeper.update(programs, 1.0)
        assert (store.poll(), tier.poll()) == (None, None)
        keeper.update((programs[0], SessionProgram("tier", ("--capacity", "2"))), 2.0)
        assert (store.poll(), tier.poll()) == (None, -signal.SIGTERM)
        assert keeper.step(2.0) is None
        assert started == [("a",), ("--capacity", "1"), ("--capacity", "2")]
        assert keeper.kept[0].process is store
        assert lines == ["tier has changed; it is started again"]
    finally:
        keeper.stop()


def view(session: LocalSession = WORKING, **changes: Any) -> SessionView:
    """Return a view of a session whose device and application are well."""
    report = {"used": 1, "frozen": "", "last_seen": NOW - 10, "report": {"digest": "sha256:1"}}
    return replace(SessionView(session, True, report, {"state": "running"}, ""), **changes)


@pytest.mark.parametrize(
    ("changes", "ready", "name", "message"),
    [
        ({}, True, "", ""),
        ({"keeper": False, "report": None}, False, "StoreServes", "create shop --local` starts it again"),
        ({"report": None, "problem": "port in use"}, False, "StoreServes", "does not answer: port in use"),
        ({"report": {"last_seen": None}}, True, "DeviceJoined", "augment invite shop --local"),
        ({"report": {"last_seen": NOW - 3600}}, True, "DeviceJoined", "pi is away: seen 3600 s ago"),
        ({"job": None}, False, "ApplicationRuns", "not known any more"),
        ({"job": {"state": "queued", "reason": "no GPU"}}, False, "ApplicationRuns", "waits: no GPU"),
        ({"job": {"state": "failed"}}, False, "ApplicationRuns", "`fairlead logs 7` shows its output"),
        (
            {"report": {"last_seen": NOW, "report": {"digest": "sha256:2"}}},
            True,
            "SameApplication",
            "the device has sha256:2, and here is sha256:1",
        ),
    ],
)
def test_conditions_say_what_is_missing_and_what_to_do(
    changes: dict[str, Any], ready: bool, name: str, message: str
) -> None:
    found = conditions(view(**changes), NOW)
    missing = {each.name: each.message for each in found if not each.holds}
    assert is_ready(found) is ready
    assert list(missing) == ([name] if name else [])
    assert message in missing.get(name, "")


def test_a_session_without_an_application_misses_none() -> None:
    assert [each.name for each in conditions(view(SESSION_HERE, job=None), NOW)] == [
        "StoreServes",
        "DeviceJoined",
    ]
