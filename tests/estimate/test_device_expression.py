"""Names of devices with terms after `@`."""

import pytest

from fairlead.errors import SettingsError
from fairlead.estimate.device_expression import DeviceExpression, parse


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("coral-usb", {}),
        ("coral-usb@usb2", {"bus": "usb", "link": 480e6}),
        ("Coral-USB@USB3", {"bus": "usb", "link": 5e9}),
        ("hailo-8@pcie3", {"bus": "pcie", "link": 7.877e9}),
        ("hailo-8@pcie3x4", {"bus": "pcie", "link": 4 * 7.877e9}),
        ("jetson-tx2@7.5w", {"power": 7.5}),
        ("a100@1/7", {"share": 1 / 7}),
        ("a100@50%", {"share": 0.5}),
        ("a100@.25", {"share": 0.25}),
        ("a100@1", {"share": 1.0}),
        ("a100@80GiB@1/7", {"memory": 80 << 30, "share": 1 / 7}),
        ("a100@80gb", {"memory": 80 << 30}),
    ],
)
def test_terms_follow_the_id(text: str, fields: dict[str, object]) -> None:
    assert parse(text) == DeviceExpression(text, text.partition("@")[0].lower(), **fields)  # type: ignore[arg-type]  # a table


@pytest.mark.parametrize("term", ["", "usb9", "pcie9x4", "15v", "nan", "inf", "-1", "1e3", "x", "1/2/3", "²"])
def test_an_unknown_term_is_refused(term: str) -> None:
    with pytest.raises(SettingsError, match="unknown term") as caught:
        parse(f"a100@{term}")
    assert "a share (1/7)" in caught.value.hint


@pytest.mark.parametrize("term", ["8/7", "0/7", "1/0", "0%", "101%", "1.5", ".0"])
def test_a_share_is_a_part(term: str) -> None:
    with pytest.raises(SettingsError, match="at most 1"):
        parse(f"a100@{term}")
