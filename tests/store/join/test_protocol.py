"""Devices join a store: one device an invite, credentials that rotate, expire and are revoked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairlead.invite import mint_admin, mint_invite, parse_key
from fairlead.store.join.protocol import JoinProtocol, JoinReply, StoreUse
from fairlead.store.join.record import LIFE, OVERLAP, ROTATE_AFTER
from fairlead.store.join.registry import DeviceRegistry
from tests.device.store import BytesContent

KEY = parse_key("the key of a session of tests")
NOW = 1_800_000_000.0
NONCE, OTHER = "a" * 64, "b" * 64


@dataclass
class JoinWorld:
    """A store's protocol at a time."""

    folder: Path
    now: float = NOW

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start the store again."""
        self.lines: list[str] = []
        self.registry = DeviceRegistry(str(self.folder), self.lines.append)
        self.protocol = JoinProtocol(
            self.registry,
            lambda: KEY,
            lambda: StoreUse(7, 100, "it is being resized"),
            "shop",
            lambda: self.now,
        )

    def ask(self, method: str, path: str, secret: str, **document: Any) -> JoinReply:
        """Send a request."""
        return self.protocol.handle(method, path, secret, BytesContent(json.dumps(document).encode()))

    def invite(self, device: str = "pi", life: float = 60.0) -> str:
        """Mint an invite."""
        return mint_invite(KEY, NOW + life, device)

    def join(self, invite: str, name: str = "pi", nonce: str = NONCE) -> JoinReply:
        """Join."""
        return self.ask("POST", "join", invite, name=name, nonce=nonce, report={"name": name})

    def joined(self) -> str:
        """Join, and return the credential."""
        return str(self.join(self.invite()).document["token"])

    def status(self, credential: str) -> int:
        """Return how the store answers a credential."""
        return self.ask("PUT", "report", credential, report={}).status


@pytest.fixture
def world(tmp_path: Path) -> JoinWorld:
    return JoinWorld(tmp_path)


def test_an_invite_becomes_a_credential_that_survives_a_restart(world: JoinWorld) -> None:
    reply = world.join(world.invite())
    assert (reply.status, reply.document["device"], reply.document["session"]) == (201, "pi", "shop")
    assert reply.document["expires"] == NOW + LIFE
    world.restart()
    assert world.status(str(reply.document["token"])) == 200


def test_no_credential_is_kept_in_the_state(world: JoinWorld) -> None:
    secret = world.joined().rpartition(".")[2]
    rotated = str(world.ask("POST", "rotate", world.joined()).document["token"]).rpartition(".")[2]
    kept = "".join(path.read_text() for path in world.folder.rglob("*") if path.is_file())
    assert kept
    assert secret not in kept
    assert rotated not in kept
    assert NONCE not in kept


@pytest.mark.parametrize("confirmed", [True, False])
def test_an_invite_is_good_for_one_device(world: JoinWorld, confirmed: bool) -> None:
    invite = world.invite()
    first = str(world.join(invite).document["token"])
    if confirmed:
        world.status(first)
    world.restart()
    reply = world.join(invite, nonce=OTHER)
    assert (reply.status, "used already" in reply.refusal) == (409, True)
    assert world.status(first) == 200


def test_a_device_whose_reply_was_lost_may_ask_again_until_it_used_its_credential(world: JoinWorld) -> None:
    invite = world.invite()
    world.join(invite)
    world.restart()
    second = str(world.join(invite).document["token"])
    assert world.status(second) == 200
    assert world.join(invite).status == 409


def test_a_store_that_ended_before_it_had_a_record_lets_the_same_device_join(
    world: JoinWorld,
) -> None:
    invite = world.invite()
    world.join(invite)
    for path in (world.folder / "devices").iterdir():
        path.unlink()
    world.restart()
    assert world.join(invite, nonce=OTHER).status == 409
    assert world.join(invite).status == 201


@pytest.mark.parametrize(
    ("invite", "name", "nonce", "status", "reason"),
    [
        (mint_invite(KEY, NOW - 1, "pi"), "pi", NONCE, 401, "expired"),
        (mint_invite(b"another key of a session", NOW + 60), "pi", NONCE, 401, "not signed"),
        ("", "pi", NONCE, 401, "no invite"),
        (
            mint_invite(KEY, NOW + 60, "pi"),
            "other",
            NONCE,
            403,
            "unknown device other: this invite",
        ),
        (mint_invite(KEY, NOW + 60), "Ä", NONCE, 400, "name"),
        (mint_invite(KEY, NOW + 60), "pi", "short", 400, "nonce"),
    ],
    ids=["expired", "other-key", "none", "other-device", "name", "nonce"],
)
def test_a_refused_join_says_why_and_uses_nothing_up(
    world: JoinWorld, invite: str, name: str, nonce: str, status: int, reason: str
) -> None:
    reply = world.join(invite, name, nonce)
    assert (reply.status, reason in reply.refusal) == (status, True), reply.refusal
    assert world.registry.devices() == []
    assert list((world.folder / "invites").iterdir()) == []


def test_a_new_credential_replaces_the_old_one_when_it_is_used(world: JoinWorld) -> None:
    old = world.joined()
    new = str(world.ask("POST", "rotate", old).document["token"])
    assert world.status(old) == 200
    world.now += 5
    assert world.status(new) == 200
    assert world.status(old) == 401
    world.restart()
    assert (world.status(new), world.status(old)) == (200, 401)


def test_a_new_credential_that_was_lost_on_its_way_costs_nothing(world: JoinWorld) -> None:
    old = world.joined()
    new = str(world.ask("POST", "rotate", old).document["token"])
    world.now += OVERLAP
    assert (world.status(new), world.status(old)) == (401, 200)
    newer = str(world.ask("POST", "rotate", old).document["token"])
    assert (world.status(newer), world.status(old)) == (200, 401)


def test_a_credential_expires_and_rotation_extends_it(world: JoinWorld) -> None:
    token = world.joined()
    world.now += LIFE - 1
    token = str(world.ask("POST", "rotate", token).document["token"])
    world.status(token)
    world.now += LIFE - 1
    assert world.status(token) == 200
    world.now += 1
    reply = world.ask("PUT", "report", token)
    assert (reply.status, reply.refusal) == (401, "the credential has expired")


def test_joining_again_revokes_the_credential_before(world: JoinWorld) -> None:
    first, other = world.joined(), str(world.join(world.invite("")).document["token"])
    assert (world.status(first), world.status(other)) == (401, 200)
    assert "joined again" in world.ask("PUT", "report", first).refusal


def test_the_owner_reads_reports_revokes_and_asks_to_rotate(world: JoinWorld) -> None:
    admin = mint_admin(KEY, NOW + 60)
    assert world.ask("GET", "report", admin).document["report"] is None
    token = world.joined()
    terms = world.ask("PUT", "report", token, report={"digest": "sha256:1"}).document
    assert terms["rotate_after"] == NOW + ROTATE_AFTER
    assert (terms["used"], terms["quota"], terms["frozen"]) == (7, 100, "it is being resized")
    view = world.ask("GET", "report", admin).document
    assert (view["device"], view["report"]["digest"], view["last_seen"]) == ("pi", "sha256:1", NOW)
    assert world.ask("POST", "ask-to-rotate", admin, device="pi").document == {"devices": ["pi"]}
    assert world.ask("PUT", "report", token).document["rotate_after"] == NOW
    assert world.ask("POST", "revoke", admin, device="pi").document == {"devices": ["pi"]}
    assert world.status(token) == 401
    view = world.ask("GET", "report", admin).document
    assert (view["device"], view["devices"][0]["revoked"]) == (None, "the session's owner revoked it")


@pytest.mark.parametrize("request_", ["GET report", "POST revoke", "POST ask-to-rotate"])
def test_a_device_is_no_owner(world: JoinWorld, request_: str) -> None:
    method, _, path = request_.partition(" ")
    token = world.joined()
    for secret in (token, world.invite(), mint_admin(KEY, NOW - 1), ""):
        assert world.ask(method, path, secret).status == 401
    assert world.status(token) == 200


def test_an_owner_is_no_device(world: JoinWorld) -> None:
    admin = mint_admin(KEY, NOW + 60)
    for method, path in (
        ("PUT", "report"),
        ("POST", "rotate"),
        ("GET", "probe/0"),
        ("PUT", "probe"),
        ("POST", "leave"),
    ):
        assert world.ask(method, path, admin).status == 401


def test_a_device_leaves(world: JoinWorld) -> None:
    token = world.joined()
    assert world.ask("POST", "leave", token).status == 200
    assert world.status(token) == 401


def test_the_link_is_probed_by_devices_alone_and_bounded(world: JoinWorld) -> None:
    token = world.joined()
    assert world.protocol.handle("GET", "probe/1000", token, BytesContent(b"")).probe == 1000
    assert world.protocol.handle("GET", "probe/99999999", token, BytesContent(b"")).status == 413
    assert world.protocol.handle("PUT", "probe", token, BytesContent(b"123")).document == {"bytes": 3}
    assert world.protocol.handle("GET", "probe/1000", "fld1.x.y", BytesContent(b"")).status == 401


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"report": 1}', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_document_changes_nothing(world: JoinWorld, body: bytes) -> None:
    token = world.joined()
    assert world.protocol.handle("PUT", "report", token, BytesContent(body)).status == 200
    assert world.protocol.handle("POST", "join", world.invite(), BytesContent(body)).status == 400
    assert world.protocol.handle("GET", "else", token, BytesContent(body)).status == 404


def test_a_damaged_record_is_named_and_the_others_are_read(world: JoinWorld) -> None:
    token = world.joined()
    (world.folder / "devices" / "odd.json").write_text("{")
    world.restart()
    assert "odd.json" in world.lines[0]
    assert world.status(token) == 200
