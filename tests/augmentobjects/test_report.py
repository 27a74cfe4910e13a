"""What the store says of itself and its device, and what follows from it."""

from datetime import timedelta
from typing import Any

import pytest

from fairlead.augmentobjects.rightsize import excess_of, needed_size
from fairlead.invite import verify_admin
from fairlead.units import parse_quantity
from tests.augmentobjects.worlds import NOW, Cluster, augmentation

SAME, OTHER = "a" * 64, "b" * 64


def cluster_with(**report: Any) -> Cluster:
    """Return a cluster whose store has answered."""
    cluster = Cluster(augmentation())
    cluster.live()
    device: dict[str, Any] = {"device": "camera-7", "last_seen": NOW.timestamp(), "used": 0}
    cluster.report = device | report
    cluster.live()
    return cluster


def test_the_page_is_asked_over_tls_with_a_token_of_the_owner() -> None:
    cluster = cluster_with()
    (page,) = cluster.asked
    assert (page.address, page.port, page.path) == ("10.0.0.9", 8443, "/.fairlead/report")
    assert page.server_name == "cam-store.shop.svc"
    assert page.authority.startswith("authority augmentation cam")
    key = f"secret-{2:032}".encode()
    assert verify_admin(key, page.token, cluster.now.timestamp()) is None
    cluster.now += timedelta(minutes=10)
    cluster.settle()
    assert cluster.asked == [page], "the same page, so that its last answer still counts"
    cluster.now += timedelta(hours=1)
    cluster.settle()
    assert cluster.asked != [page]
    assert verify_admin(key, cluster.asked[0].token, cluster.now.timestamp()) is None


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({}, "True Joined: camera-7 has joined"),
        ({"device": None}, "False NotJoined: camera-7 has not joined"),
        ({"device": "other"}, "False UnknownDevice: other has joined, and this is for camera-7"),
        ({"last_seen": NOW.timestamp() - 3600}, "False Away: camera-7 was last seen at 2026-11-19T11:00:00Z"),
        ({"used": "much"}, "False Unknown: the store has not said"),
        ({"last_seen": 1e30}, "False Unknown: the store has not said"),
    ],
)
def test_the_device_that_joined_is_the_one_it_is_for(report: dict[str, Any], said: str) -> None:
    assert cluster_with(**report).says("DeviceJoined").startswith(said)


@pytest.mark.parametrize(
    ("digest", "stated", "said"),
    [
        (SAME, None, "True Same: both run sha256:aaaa"),
        (OTHER, None, "False Different: the device runs sha256:bbbb"),
        (OTHER, OTHER, "True Same"),
        (SAME, f"sha256:{OTHER}", "False Different"),
        (None, None, "False NotReported"),
    ],
)
def test_another_application_on_the_device_is_a_condition(
    digest: str | None, stated: str | None, said: str
) -> None:
    cluster = cluster_with(report={"digest": f"sha256:{digest}" if digest else None})
    if stated:
        cluster.change(lambda spec: spec["application"].update(digest=stated))
        cluster.live()
    assert cluster.says("SameApplication").startswith(said)
    assert cluster.says("Ready").startswith("True"), "the session can be used all the same"


def test_a_shrink_below_what_is_used_is_refused_and_follows_once_files_are_removed() -> None:
    cluster = cluster_with(used=(1 << 30) + 5)
    assert cluster.resource["status"]["used"] == "1025Mi"
    cluster.change(lambda spec: spec["storage"].update(size="1Gi"))
    cluster.settle()
    assert cluster.says("Sized") == (
        f"False ShrinkBelowUse: {(1 << 30) + 5} are in use, more than the 1Gi that are asked for: the quota "
        "stays 2Gi until files are removed"
    )
    assert cluster.settings() == {"quota": f"{2 << 30}\n"}
    cluster.report = {"used": 1 << 20}
    cluster.settle()
    assert cluster.settings() == {"quota": f"{1 << 30}\n"}
    assert cluster.says("Sized").startswith("True AsAsked")
    assert cluster.resource["status"]["peak"] == "1025Mi"


def test_a_store_that_is_silent_changes_nothing_that_was_known() -> None:
    cluster = cluster_with(used=3 << 20)
    cluster.report = None
    cluster.now += timedelta(minutes=5)
    cluster.settle()
    assert cluster.resource["status"]["used"] == "3Mi"
    assert cluster.settings() == {"quota": f"{2 << 30}\n"}


@pytest.mark.parametrize(
    ("size", "peak", "needed", "excess"),
    [
        ("2Gi", "1Gi", "1280Mi", "768Mi"),
        ("2Gi", "1600Mi", "2000Mi", "0"),
        ("1Gi", "0", "16Mi", "1008Mi"),
        ("16Mi", "1Mi", "16Mi", "0"),
        ("1Gi", "1Gi", "1280Mi", "0"),
    ],
)
def test_what_is_needed_is_the_most_that_was_used_and_a_quarter_more(
    size: str, peak: str, needed: str, excess: str
) -> None:
    wanted = needed_size(parse_quantity(peak))
    assert wanted == parse_quantity(needed)
    assert excess_of(parse_quantity(size), wanted) == parse_quantity(excess)
