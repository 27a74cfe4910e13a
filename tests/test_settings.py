"""Settings: what a user may write, and what he is told when he wrote something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import SettingsError
from fairlead.settings import LISTEN, Address, AgentSettings, agent_settings, parse_address


def test_defaults_are_the_same_wherever_they_are_written() -> None:
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
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
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
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^sweep: .* is not a duration"):
        agent_settings(sweep=text)


@given(st.text(max_size=30), st.text(max_size=12))
def test_anything_is_taken_or_refused(listen: str, period: str) -> None:
    try:
        settings = agent_settings(listen, period, period)
    except SettingsError:
        return
    assert 0 <= settings.listen.port <= 65535
    assert 0.1 <= settings.sample <= 86400
