"""The options of measured use: nothing is read by default, and a value that cannot be is refused."""

import argparse

import pytest

from fairlead.cli.serve import scheduler
from fairlead.errors import SettingsError
from fairlead.usage.source import SourceName


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    scheduler.add(parser.add_subparsers())
    return parser.parse_args(["scheduler", *words])


def test_nothing_is_read_unless_the_policy_or_an_option_asks_for_it() -> None:
    assert scheduler._usage(parsed(), needed=False) is None
    assert scheduler._usage(parsed("--usage=none"), needed=True) is None
    needed = scheduler._usage(parsed(), needed=True)
    assert needed is not None
    assert (needed.source, needed.period) == (SourceName.AUTO, 15.0)
    asked = scheduler._usage(parsed("--usage=agents", "--usage-period=30s"), needed=False)
    assert asked is not None
    assert (asked.source, asked.period) == (SourceName.AGENTS, 30.0)
    words = ("--prometheus=https://p:9090", "--prometheus-token-file=t", "--prometheus-ca-file=c")
    prometheus = scheduler._usage(parsed(*words), needed=False)
    assert prometheus is not None
    assert (prometheus.url, prometheus.token_file, prometheus.ca_file) == ("https://p:9090", "t", "c")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--usage=prometheus",), "no address"),
        (("--prometheus=p:9090",), "not the address"),
        (("--usage=agents", "--usage-period=soon"), "--usage-period soon: not a duration"),
        (("--usage=agents", "--usage-period=0.1s"), "do not go together"),
    ],
)
def test_settings_that_cannot_be_are_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        scheduler._usage(parsed(*words), needed=True)


@pytest.mark.parametrize("text", ["0", "1", "-1", "often", "nan"])
def test_a_bound_is_a_probability(text: str) -> None:
    with pytest.raises(SettingsError, match="not a probability"):
        scheduler._bound(text)
    assert scheduler._bound("1e-4") == 1e-4
