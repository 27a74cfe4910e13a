"""Settings of publishing: invalid ones are refused before the agent starts."""

from pathlib import Path

import pytest

from fairlead.errors import SettingsError
from fairlead.offer import Form
from fairlead.settings.publishing import PublishConfig, check, parse_targets, unit_limit


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("labels", {"labels"}),
        ("labels, plugin", {"labels", "plugin"}),
        ("all", {"labels", "plugin", "claims"}),
    ],
)
def test_what_to_publish(text: str, targets: set[str]) -> None:
    assert parse_targets(text) == targets


@pytest.mark.parametrize("text", ["", ",", "label", "labels,all", "labels,taints"])
def test_what_cannot_be_published(text: str) -> None:
    with pytest.raises(SettingsError, match="publish") as caught:
        parse_targets(text)
    assert "labels, plugin, claims" in caught.value.hint


def test_forms_follow_from_what_is_published() -> None:
    assert PublishConfig("n1", frozenset({"labels"})).forms == set()
    assert PublishConfig("n1", frozenset({"plugin"})).forms == {Form.WHOLE, Form.MEMORY}
    assert PublishConfig("n1").forms == set(Form)


@pytest.mark.parametrize("node", ["", "Node", "a_b", "-a", "a" * 254])
def test_a_node_needs_its_name(node: str) -> None:
    with pytest.raises(SettingsError, match="node"):
        check(PublishConfig(node, frozenset({"labels"})))


def test_claims_need_the_warden(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="warden"):
        check(PublishConfig("n1"))
    assert check(PublishConfig("n1", warden=tmp_path)).cdi == tmp_path / "cdi.sock"
    with pytest.raises(SettingsError, match="warden"):
        check(PublishConfig("n1", warden=tmp_path, with_cdi=False))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    terms = PublishConfig("n1", frozenset({"plugin"}), kubelet=tmp_path)
    with pytest.raises(SettingsError, match=r"plugins/fairlead\.dev") as caught:
        check(terms, ready=(terms.sockets, terms.registry))
    assert "warden open" in caught.value.hint


@pytest.mark.parametrize(
    ("kubelet", "units"),
    [("v1.35.4", 150_000), ("v1.29.0+k3s1", 150_000), ("v1.36.0", 32_768), ("v2.0.0", 32_768), ("", 32_768)],
)
def test_new_kubelets_have_a_lower_limit(kubelet: str, units: int) -> None:
    assert unit_limit(kubelet) == units


def test_a_negative_number_of_units_is_refused() -> None:
    with pytest.raises(SettingsError, match="most-units"):
        check(PublishConfig("n1", frozenset({"plugin"}), most_units=-1))
