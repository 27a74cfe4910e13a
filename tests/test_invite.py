"""Invites and admin tokens: what is accepted, and why another text is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.invite import (
    Invite,
    TokenRefusal,
    mint_admin,
    mint_invite,
    new_key,
    parse_key,
    read_invite,
    verify_admin,
    verify_invite,
)

KEY, OTHER = parse_key("0123456789abcdef0123"), parse_key("another key of a session")
NOW = 1_800_000_000.0


def test_an_invite_says_who_may_join_until_when() -> None:
    text = mint_invite(KEY, NOW + 60, "pi-4", lambda: "c0ffee")
    invite = verify_invite(KEY, f" {text}\n", NOW)
    assert invite == Invite("pi-4-c0ffee", 1_800_000_060)
    assert invite == read_invite(text)
    assert isinstance(invite, Invite)
    assert invite.device == "pi-4"


@pytest.mark.parametrize("device", ["a.b", "a b", "x" * 64])
def test_a_name_that_an_invite_cannot_hold_is_refused(device: str) -> None:
    with pytest.raises(ValueError, match="cannot be in an invite"):
        mint_invite(KEY, NOW, device)


def test_invites_differ() -> None:
    assert mint_invite(KEY, NOW) != mint_invite(KEY, NOW)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (mint_invite(KEY, NOW - 1), "expired"),
        (mint_invite(KEY, NOW), "expired"),
        (mint_invite(OTHER, NOW + 60), "not signed"),
        (mint_invite(KEY, NOW + 60)[:-1], "not signed"),
        ("fli1.a.b.1800000060.x", "no invite"),
        (mint_admin(KEY, NOW + 60), "no invite"),
        ("fli1.x.1800000060.é", "not signed"),
        ("fli1.x.soon.y", "no invite"),
        ("", "no invite"),
        ("fli1." + "x" * 1000, "no invite"),
    ],
    ids=["past", "now", "other-key", "cut", "words", "admin", "not-ascii", "no-time", "empty", "long"],
)
def test_another_text_is_no_invite(text: str, reason: str) -> None:
    refusal = verify_invite(KEY, text, NOW)
    assert isinstance(refusal, TokenRefusal)
    assert reason in refusal.reason


def test_an_expiry_cannot_be_changed() -> None:
    words = mint_invite(KEY, NOW - 1).split(".")
    words[2] = str(int(words[2]) + 3600)
    assert isinstance(verify_invite(KEY, ".".join(words), NOW), TokenRefusal)


def test_an_admin_token_is_accepted_until_it_expires() -> None:
    text = mint_admin(KEY, NOW + 60)
    assert verify_admin(KEY, text, NOW) is None
    assert verify_admin(KEY, text, NOW + 60) is not None
    assert verify_admin(OTHER, text, NOW) is not None
    assert verify_admin(KEY, mint_invite(KEY, NOW + 60), NOW) is not None


@given(st.text(max_size=300))
def test_any_text_is_answered(text: str) -> None:
    assert isinstance(verify_invite(KEY, text, NOW), TokenRefusal)
    assert isinstance(verify_admin(KEY, text, NOW), TokenRefusal)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16"):
        parse_key("short\n")
    assert parse_key(new_key() + "\n") != parse_key(new_key())
