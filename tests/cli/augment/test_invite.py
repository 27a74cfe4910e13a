"""`fairlead augment invite`: a token that the session's store accepts, made without it."""

import json
import time
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.invite import Invite, parse_key, verify_invite
from tests.device.store import certificate

KEY = "the key of a session of tests"


def test_an_invite_has_all_that_a_device_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    (cert, _), fingerprint = certificate(tmp_path, "store")
    words = ["augment", "invite", "--url", "https://server:8443", "--key-file", str(tmp_path / "key")]
    words += ["--cert", str(cert), "--device", "pi-4", "--valid-for", "1h"]
    assert main([*words, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    invite = verify_invite(parse_key(KEY), document["token"], time.time())
    assert isinstance(invite, Invite)
    assert invite.device == "pi-4"
    assert 3500 < document["expires"] - time.time() <= 3600
    assert document["fingerprint"] == f"sha256:{fingerprint}"
    assert main(words) == 0
    assert "fairlead device join https://server:8443/ --token fli1.pi-4-" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--url", "https://server", "--key-file", "key"], "no certificate is named"),
        (["--url", "http://server", "--key-file", "key"], "without TLS"),
        (["--url", "http://127.0.0.1:1", "--key-file", "nothing"], "--key-file nothing: No such file"),
        (["--url", "http://127.0.0.1:1", "--key-file", "short"], "at least 16 characters"),
        (["--url", "https://server", "--key-file", "key", "--cert", "key"], "no certificate in PEM"),
        (["--url", "http://127.0.0.1:1", "--key-file", "key", "--device", "a.b"], "cannot be in an invite"),
        (["--url", "http://127.0.0.1:1", "--key-file", "key", "--valid-for", "0"], "out of range"),
        (["--url", "http://127.0.0.1:1", "--key-file", "key", "--valid-for", "soon"], "not a duration"),
    ],
)
def test_nonsense_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key").write_text(KEY)
    Path("short").write_text("short")
    assert main(["augment", "invite", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, reason in err) == ("", True), err
