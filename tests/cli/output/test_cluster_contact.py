"""The reports of `nodes -w` about an unavailable cluster: each is printed in time, and once."""

from fairlead.cli.output.cluster_contact import ClusterContact
from fairlead.errors import ClusterUnavailableError, GoneError

SERVER = "https://127.0.0.1:6443"
REFUSED = ClusterUnavailableError("nothing answers", "is it up?")
LOST = "nothing answers: trying again until it answers\n  is it up?"
BACK = f"{SERVER} answers again"


def test_a_refused_connection_is_reported_until_the_cluster_answers() -> None:
    contact = ClusterContact(SERVER)
    reports = [contact.observe(REFUSED, synced=False, seconds=at) for at in (0.25, 0.5, 0.75, 9.0)]
    assert reports == ["", LOST, "", ""]
    assert contact.away
    assert [contact.observe(None, synced=True, seconds=at) for at in (10.0, 11.0)] == [BACK, ""]
    assert not contact.away


def test_dropped_packets_are_reported_as_no_answer() -> None:
    contact = ClusterContact(SERVER)
    reports = [contact.observe(None, synced=False, seconds=at) for at in (0.5, 1.4, 1.5, 5.0)]
    assert reports == ["", "", f"no answer from {SERVER} yet: waiting for it", ""]
    assert contact.observe(REFUSED, synced=False, seconds=10.0) == ""
    assert contact.observe(None, synced=True, seconds=11.0) == BACK


def test_a_fast_answer_and_an_expired_watch_are_not_reported() -> None:
    contact = ClusterContact(SERVER)
    assert contact.observe(None, synced=False, seconds=0.25) == ""
    for trouble in (None, GoneError("too old"), None, GoneError("too old"), None):
        assert contact.observe(trouble, synced=True, seconds=9.0) == ""
    assert not contact.away


def test_an_error_older_than_the_answer_is_ignored_and_a_new_one_is_not() -> None:
    contact = ClusterContact(SERVER)
    again = ClusterUnavailableError("the connection broke")
    assert [contact.observe(REFUSED, synced=True, seconds=9.0) for _ in range(2)] == ["", LOST]
    assert contact.on_answer(REFUSED) == BACK
    assert [contact.observe(REFUSED, synced=True, seconds=9.0) for _ in range(3)] == ["", "", ""]
    reports = [contact.observe(again, synced=True, seconds=9.0) for _ in range(2)]
    assert reports == ["", "the connection broke: trying again until it answers"]
