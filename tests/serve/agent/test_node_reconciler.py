"""What rings the bell of those who write to the API server, and what does not."""

from dataclasses import dataclass, field

import pytest

from fairlead.cluster.meta import Metadata, Object
from fairlead.serve.agent.node_reconciler import _take


@dataclass
class Copy:
    """What is known of one object."""

    known: dict[str, Object] = field(default_factory=dict)

    def took(self, metadata: Metadata, *, gone: bool = False) -> bool:
        return _take(self.known, Object(metadata=metadata), gone=gone)


@pytest.mark.parametrize(
    ("after", "rings"),
    [
        (Metadata(name="n1", uid="1", resource_version="2"), False),
        (Metadata(name="n1", uid="2"), True),
        (Metadata(name="n1", uid="1", labels={"a": "b"}), True),
        (Metadata(name="n1", uid="1", annotations={"a": "b"}), True),
        (Metadata(name="n1", uid="1", generation=2), True),
    ],
)
def test_a_heartbeat_is_no_news(after: Metadata, rings: bool) -> None:
    copy = Copy()
    assert copy.took(Metadata(name="n1", uid="1", resource_version="1"))
    assert copy.took(after) == rings
    assert copy.known["n1"].metadata == after


def test_what_goes_is_news_once() -> None:
    copy = Copy()
    copy.took(Metadata(name="n1"))
    assert copy.took(Metadata(name="n1"), gone=True)
    assert not copy.took(Metadata(name="n1"), gone=True)
