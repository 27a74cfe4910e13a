"""Which watch events make a publication due, and which do not."""

from dataclasses import dataclass, field

import pytest

from fairlead.cluster.meta import Metadata, Object
from fairlead.serve.agent.node_reconciler import _apply


@dataclass
class Copy:
    """The reconciler's copy of one object."""

    known: dict[str, Object] = field(default_factory=dict)

    def apply(self, metadata: Metadata, *, gone: bool = False) -> bool:
        return _apply(self.known, Object(metadata=metadata), gone=gone)


@pytest.mark.parametrize(
    ("after", "due"),
    [
        (Metadata(name="n1", uid="1", resource_version="2"), False),
        (Metadata(name="n1", uid="2"), True),
        (Metadata(name="n1", uid="1", labels={"a": "b"}), True),
        (Metadata(name="n1", uid="1", annotations={"a": "b"}), True),
        (Metadata(name="n1", uid="1", generation=2), True),
    ],
)
def test_a_heartbeat_makes_no_publication_due(after: Metadata, due: bool) -> None:
    copy = Copy()
    assert copy.apply(Metadata(name="n1", uid="1", resource_version="1"))
    assert copy.apply(after) == due
    assert copy.known["n1"].metadata == after


def test_a_deletion_makes_one_publication_due() -> None:
    copy = Copy()
    copy.apply(Metadata(name="n1"))
    assert copy.apply(Metadata(name="n1"), gone=True)
    assert not copy.apply(Metadata(name="n1"), gone=True)
