"""A device and its session: joins whose replies are lost, rotation that is interrupted, the agent's steps."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.device.agent import AgentTimes, DeviceAgent, next_time
from fairlead.device.contact import load_contact
from fairlead.device.place import DevicePlace
from fairlead.device.queue import UploadQueue
from fairlead.device.report import DeviceReport, load_report, save_report
from fairlead.device.session import SessionClient, StoreAddress, join
from fairlead.errors import DeviceError, FairleadError, StoreUnavailableError
from fairlead.invite import mint_admin, mint_invite
from tests.device.store import (
    KEY,
    BytesContent,
    FakeStore,
    Handler,
    answering,
    disconnect_after,
    joinable,
    serving,
)

REPORT = DeviceReport("pi", {"cores": 4, "accelerators": []}, {"free_bytes": 1, "size_bytes": 2})
NONE: dict[str, str] = {}


def place_of(folder: Path) -> DevicePlace:
    return DevicePlace.of({"XDG_STATE_HOME": str(folder / "device")}, "pi")


def invite(life: float = 60.0, key: bytes = KEY) -> str:
    return mint_invite(key, time.time() + life, "pi")


@contextmanager
def joined(folder: Path) -> Iterator[tuple[FakeStore, DevicePlace]]:
    """Yield a store, and the place of a device that has joined it."""
    with serving(joinable(folder / "state")) as store:
        place = place_of(folder)
        join(place, StoreAddress(store.url, ""), invite(), REPORT, NONE)
        save_report(place, REPORT)
        yield store, place


def test_a_join_is_recorded_with_its_report(tmp_path: Path) -> None:
    with joined(tmp_path) as (store, place):
        membership = place.read_membership()
        assert (membership.name, membership.session, membership.url) == ("pi", "shop", store.url)
        assert store.registry is not None
        (record,) = store.registry.devices()
        assert record.report["machine"] == {"cores": 4, "accelerators": []}


def test_a_join_whose_reply_was_lost_is_repeated(tmp_path: Path) -> None:
    with serving(joinable(tmp_path / "state")) as store:
        text, place, address = invite(), place_of(tmp_path), StoreAddress(store.url, "")
        protocol = store.protocol
        assert protocol is not None

        def lose(handler: Handler) -> bool:
            protocol.handle("POST", "join", handler.secret(), BytesContent(handler.read_body()))
            handler.close_connection = True
            return True

        store.faults = [lose]
        with pytest.raises(StoreUnavailableError):
            join(place, address, text, REPORT, NONE)
        assert not place.is_joined()
        join(place, address, text, REPORT, NONE)
        with SessionClient(place) as client:
            assert client.report(REPORT)["session"] == "shop"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (mint_invite(KEY, 1.0, "pi"), "the invite has expired"),
        (mint_invite(b"another key of a session", 2e9, "pi"), "not signed with the key of this session"),
        (mint_invite(KEY, 2e9, "other"), "unknown device pi: this invite is for other"),
    ],
    ids=["expired", "other-key", "other-device"],
)
def test_a_refused_join_is_one_line_and_loses_no_membership(tmp_path: Path, text: str, reason: str) -> None:
    with joined(tmp_path) as (store, place):
        before = place.read_membership()
        with pytest.raises(DeviceError, match=reason):
            join(place, StoreAddress(store.url, ""), text, REPORT, NONE)
        assert place.read_membership() == before


def test_a_used_invite_is_refused_for_another_device(tmp_path: Path) -> None:
    with serving(joinable(tmp_path / "state")) as store:
        text, address = mint_invite(KEY, 2e9), StoreAddress(store.url, "")
        join(place_of(tmp_path / "a"), address, text, REPORT, NONE)
        with pytest.raises(DeviceError, match="used already") as refused:
            join(place_of(tmp_path / "b"), address, text, REPORT, NONE)
        lines = f"{refused.value} {refused.value.hint}"
        assert lines.count("fairlead augment invite") == 1


def test_a_join_to_an_address_without_a_store_speaks_of_no_queue(tmp_path: Path) -> None:
    address = StoreAddress("http://127.0.0.1:1", "")
    with pytest.raises(StoreUnavailableError, match="cannot be reached") as unreached:
        join(place_of(tmp_path / "a"), address, mint_invite(KEY, 2e9), REPORT, NONE)
    assert "the invite stays valid" in (unreached.value.hint or "")


def test_rotation_keeps_the_old_credential_until_the_new_one_works(tmp_path: Path) -> None:
    with joined(tmp_path) as (_, place):
        first = place.read_membership().token
        with SessionClient(place) as client:
            client.rotate()
            waiting = place.read_membership()
            assert waiting.token == first
            assert waiting.next_token not in ("", first)
        with SessionClient(place) as client:  # another process, after a kill
            client.confirm()
        assert place.read_membership() == replace(waiting, token=waiting.next_token, next_token="")


def test_a_new_credential_that_is_not_valid_any_more_is_given_up(tmp_path: Path) -> None:
    with joined(tmp_path) as (_, place):
        before = place.read_membership()
        place.write_membership(replace(before, next_token="fld1.gone." + "x" * 43))
        with SessionClient(place) as client:
            client.confirm()
            assert place.read_membership() == before
            client.report(REPORT)


def agent_of(place: DevicePlace, queue: UploadQueue) -> tuple[DeviceAgent, list[str]]:
    lines: list[str] = []
    return DeviceAgent(place, queue, lines.append, lambda: 1.0), lines


def queue_file(folder: Path, queue: UploadQueue, path: str, content: bytes) -> None:
    (folder / "source").write_bytes(content)
    queue.add(str(folder / "source"), path, time.time())


def test_a_step_sends_reports_and_measures_the_link(tmp_path: Path) -> None:
    with joined(tmp_path) as (store, place), UploadQueue(place) as queue:
        queue_file(tmp_path, queue, "a", b"1")
        agent, lines = agent_of(place, queue)
        agent.step(time.time())
        agent.close()
        assert (lines, store.files, agent.problem) == (["sent a"], {"a": b"1"}, None)
        kept, contact = load_report(place), load_contact(place)
        assert kept is not None
        assert set(kept.link) == {"round_trip_s", "up_bytes_per_s", "down_bytes_per_s"}
        assert contact.session["quota"] == 1 << 30
        assert store.registry is not None
        assert store.registry.devices()[0].report["queue"] == {"waiting": 1, "refused": 0, "bytes": 1}


def test_an_agent_that_is_offline_tries_again_with_growing_pauses(tmp_path: Path) -> None:
    with joined(tmp_path) as (store, place), UploadQueue(place) as queue:
        queue_file(tmp_path, queue, "a", b"1")
        agent, lines = agent_of(place, queue)
        now = time.time()
        pauses = []
        for _ in range(3):
            store.faults = [disconnect_after(0)] * 2
            agent.step(now)
            pauses.append(round(agent.next_time() - now))
            now = agent.next_time()
        assert pauses == [1, 2, 4]
        assert isinstance(agent.problem, FairleadError)
        assert "cannot be reached" in load_contact(place).problem
        store.faults = []
        agent.step(now)
        agent.close()
        assert lines[-2:] == ["sent a", "the store is reached again"]
        assert store.files == {"a": b"1"}


def test_a_pause_that_the_store_asks_for_holds_all_uploads_back(tmp_path: Path) -> None:
    with joined(tmp_path) as (store, place), UploadQueue(place) as queue:
        queue_file(tmp_path, queue, "a", b"1")
        queue_file(tmp_path, queue, "b", b"2")
        agent, lines = agent_of(place, queue)
        agent.step(time.time() - 120)  # reports, and sends both
        queue_file(tmp_path, queue, "a", b"3")
        queue_file(tmp_path, queue, "b", b"4")
        now = time.time() - 100
        store.faults = [answering(503, b"it is being resized", Retry_After="30")]
        agent.step(now)
        assert agent.next_time() == now + 30
        assert lines[2:] == ["waiting a: the store takes no writes now: it is being resized"]
        agent.step(now + 29)
        assert len(queue.uploads()) == 2
        agent.step(now + 30)
        agent.close()
        assert store.files == {"a": b"3", "b": b"4"}


def test_an_agent_rotates_when_its_session_asks(tmp_path: Path) -> None:
    with joined(tmp_path) as (store, place), UploadQueue(place) as queue:
        before = place.read_membership().token
        assert store.protocol is not None
        store.protocol.handle("POST", "ask-to-rotate", mint_admin(KEY, time.time() + 60), BytesContent())
        agent, lines = agent_of(place, queue)
        agent.step(time.time())
        agent.close()
        assert lines == ["the credential was rotated"]
        after = place.read_membership()
        assert after.token != before
        assert after.next_token == ""
        assert after.rotate_after > time.time()


def test_an_agent_that_runs_rotates_when_its_user_asks(tmp_path: Path) -> None:
    with joined(tmp_path) as (_, place), UploadQueue(place) as queue:
        agent, lines = agent_of(place, queue)
        agent.step(time.time())
        before = place.read_membership()
        place.write_membership(replace(before, rotate_after=1.0))
        agent.on_wakeup()
        agent.step(time.time())
        agent.close()
        assert lines == ["the credential was rotated"]
        after = place.read_membership()
        assert after.token != before.token
        assert after.rotate_after > time.time()


def test_an_agent_whose_credential_is_revoked_keeps_the_queue_for_a_new_one(
    tmp_path: Path,
) -> None:
    with joined(tmp_path) as (store, place), UploadQueue(place) as queue:
        assert store.protocol is not None
        agent, lines = agent_of(place, queue)
        agent.step(time.time())
        store.protocol.handle("POST", "revoke", mint_admin(KEY, time.time() + 60), BytesContent())
        queue_file(tmp_path, queue, "a", b"1")
        now = time.time()
        agent.step(now)
        assert "refuses this device's credential" in str(agent.problem)
        assert agent.next_time() >= now + 150
        assert len(queue.uploads()) == 1
        join(place, StoreAddress(store.url, ""), invite(), REPORT, NONE)
        agent.on_wakeup()
        agent.step(now)
        agent.close()
        assert lines[-2:] == ["sent a", "the store is reached again"]


def test_the_next_step_waits_for_uploads_reports_and_pauses() -> None:
    assert next_time(AgentTimes(report=60), None) == 60
    assert next_time(AgentTimes(report=60), 10.0) == 10
    assert next_time(AgentTimes(report=60, contact=300), 10.0) == 300
