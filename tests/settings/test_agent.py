"""Settings: valid texts, and the errors for invalid ones."""

from pathlib import Path
from typing import Literal, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import SettingsError
from fairlead.settings import LISTEN, Address, TlsFiles, parse_address
from fairlead.settings.agent import AgentSettings, agent_settings, parse_xids


def test_all_statements_of_a_default_agree() -> None:
    assert agent_settings() == AgentSettings()
    assert str(AgentSettings().listen) == LISTEN


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:19809", Address("127.0.0.1", 19809)),
        ("[::1]:80", Address("::1", 80)),
        (":0", Address("", 0)),
        ("localhost:65535", Address("localhost", 65535)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "19809", "localhost", "::1:80", "a:b", "a:-1", "[::1]80", "http://x:1", "a:1 ", "a:٣", "a:123456"],
)
def test_an_invalid_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_address(text)
    assert LISTEN in error.value.hint


def test_ports_end_at_65535() -> None:
    with pytest.raises(SettingsError, match="no port 65536"):
        parse_address("127.0.0.1:65536")


@pytest.mark.parametrize(
    ("text", "seconds"), [("100ms", 0.1), ("10s", 10), ("5m", 300), ("24h", 86400), ("2", 2)]
)
def test_periods(text: str, seconds: float) -> None:
    assert agent_settings(sweep=text, sample=text).sweep == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["99ms", "0s", "25h", "9" * 400 + "h"])
def test_periods_out_of_range_are_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^sample: .* is out of range") as error:
        agent_settings(sample=text)
    assert "100ms to 24h" in error.value.hint


@pytest.mark.parametrize("text", ["", "soon", "-5s", "10 weeks", "1e3s", "nan", "inf"])
def test_an_invalid_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^sweep: .* is not a duration"):
        agent_settings(sweep=text)


@given(st.text(max_size=30), st.text(max_size=12))
def test_any_text_is_accepted_or_refused(listen: str, period: str) -> None:
    try:
        settings = agent_settings(listen, period, period)
    except SettingsError:
        return
    assert 0 <= settings.listen.port <= 65535
    assert 0.1 <= settings.sample <= 86400


class Files(TypedDict):
    """The settings that name files."""

    tls_cert: str
    tls_key: str
    token_file: str


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return readable files, by setting."""
    for name in Files.__annotations__:
        (tmp_path / name).write_text("x")
    return Files(
        tls_cert=str(tmp_path / "tls_cert"),
        tls_key=str(tmp_path / "tls_key"),
        token_file=str(tmp_path / "token_file"),
    )


def test_a_certificate_and_its_key_are_set_together(files: Files) -> None:
    settings = agent_settings(":1", **files)
    assert settings.tls == TlsFiles(files["tls_cert"], files["tls_key"])
    assert settings.token_file == files["token_file"]
    with pytest.raises(SettingsError, match="tls-cert is set and tls-key is not"):
        agent_settings(tls_cert=files["tls_cert"])
    with pytest.raises(SettingsError, match="tls-key is set and tls-cert is not"):
        agent_settings(tls_key=files["tls_key"])


@pytest.mark.parametrize("name", ["tls_cert", "tls_key", "token_file"])
@pytest.mark.parametrize(
    ("path", "why"), [("gone", "no such file"), ("folder", "is a directory"), ("nul\0", "null byte")]
)
def test_files_must_exist_and_be_readable(
    tmp_path: Path, files: Files, name: Literal["tls_cert", "tls_key", "token_file"], path: str, why: str
) -> None:
    (tmp_path / "folder").mkdir()
    files[name] = str(tmp_path / path)
    with pytest.raises(
        SettingsError, match=f"^{name.replace('_', '-')}: .* cannot be read: .*{why}"
    ) as error:
        agent_settings(**files)
    assert "mount the secret" in error.value.hint


@pytest.mark.parametrize(
    ("listen", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.8.9.10:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        (":1", False),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("127.example.org:1", False),
        ("127.0.0.1.example.org:1", False),
        ("localhost.example.org:1", False),
    ],
)
def test_a_token_does_not_leave_the_machine_in_the_clear(files: Files, listen: str, loopback: bool) -> None:
    assert agent_settings(listen, **files).token_file
    if loopback:
        assert agent_settings(listen, token_file=files["token_file"]).token_file
        return
    with pytest.raises(
        SettingsError, match=r"without TLS the token crosses the network to .* in the clear"
    ) as error:
        agent_settings(listen, token_file=files["token_file"])
    assert "--tls-cert" in error.value.hint
    assert LISTEN in error.value.hint


@pytest.mark.parametrize(
    ("text", "healthy", "fatal"), [("", 13, 79), ("79, 94", 94, 48), ("all", 48, None), ("13", 109, 79)]
)
def test_xids_are_ignored_beside_those_of_applications(text: str, healthy: int, fatal: int | None) -> None:
    policy = parse_xids(text)
    assert not policy.is_fatal(healthy)
    assert not policy.is_fatal(13)
    assert fatal is None or policy.is_fatal(fatal)


@pytest.mark.parametrize("text", ["x", "79;94", "-1", "all,79", "999999", "7.5"])
def test_an_invalid_xid_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not the number of an XID"):
        parse_xids(text)
