"""The file of a run, from one look to the next."""

import time
from dataclasses import dataclass, field

from fairlead.errors import PipelineError
from fairlead.pipeline.replan.follower import (
    FIRST_RETRY,
    LOOK,
    ChangeFailure,
    FileFollower,
    FollowedFile,
    Verdict,
    digest_of,
)
from fairlead.pipeline.replan.following import ChangeRefusal
from fairlead.pipeline.spec import PipelineSpec

LIMIT = 60.0
SPEC = PipelineSpec("p", (), (), path="p.yaml")


@dataclass
class World:
    """A file, what is thought of its texts, and the time."""

    text: bytes | None = b"first"
    verdicts: dict[bytes, Verdict] = field(default_factory=dict)
    judged: list[bytes] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        first = FollowedFile(digest_of(b"first"), SPEC, SPEC)
        self.follower = FileFollower(first, self.read, self.judge, self.lines.append)

    def read(self) -> bytes:
        """Return the text."""
        if self.text is None:
            raise PipelineError("p.yaml: cannot be read: no such file", "")
        return self.text

    def judge(self, file: FollowedFile, data: bytes) -> Verdict:
        """Return what is thought of a text."""
        self.judged.append(data)
        return self.verdicts[data]

    def look(self, times: int = 2) -> None:
        """Let some time pass, and the judge say what it thinks."""
        for _ in range(times):
            self.now += LOOK
            self.follower.observe(self.now)
        before = time.monotonic()
        while self.follower.is_judging and time.monotonic() < before + LIMIT:
            self.follower.observe(self.now)

    def says(self) -> tuple[str, str, bool]:
        """Return what the status says beside the digests."""
        body = self.follower.document()
        return body["pending"], body["failed"], body["moving"]


def carried(data: bytes) -> FollowedFile:
    """Return a text that can be carried out."""
    return FollowedFile(digest_of(data), SPEC, PipelineSpec(data.decode(), (), (), path="p.yaml"))


def test_a_change_is_carried_out_once_two_looks_agree() -> None:
    world = World(verdicts={b"second": carried(b"second")})
    world.look(3)
    world.text = b"seco"
    world.look(1)
    world.text = b"second"
    world.look(1)
    assert world.judged == []
    world.look(1)
    assert world.judged == [b"second"]
    assert world.follower.wanted == carried(b"second").running
    world.follower.begin()
    assert world.follower.wanted is None
    assert world.says() == ("", "", True)
    world.follower.on_ended(done=True, reason="", now=world.now)
    world.look(3)
    body = world.follower.document()
    assert body["digest"] == body["seen"] == digest_of(b"second")
    assert world.judged == [b"second"]
    assert world.lines == []


def test_what_cannot_be_followed_is_said_once_and_forgotten_with_the_old_text() -> None:
    world = World(text=b"bad", verdicts={b"bad": ChangeRefusal("a source has changed")})
    world.look(20)
    assert world.judged == [b"bad"]
    assert world.says() == ("a source has changed", "", False)
    assert len(world.lines) == 1
    assert world.follower.document()["seen"] == digest_of(b"bad")
    world.text = None
    world.look()
    assert world.says()[0] == "p.yaml: cannot be read: no such file"
    world.text = b"first"
    world.look()
    assert world.says() == ("", "", False)
    world.text = b"bad"
    world.look()
    assert world.judged == [b"bad", b"bad"]


def test_what_fails_is_tried_again_later_each_time() -> None:
    world = World(text=b"new", verdicts={b"new": ChangeFailure("b does not answer")})
    world.look()
    begun = world.now
    assert world.says() == ("", "b does not answer", False)
    world.look(int(FIRST_RETRY / LOOK) - 1)
    assert len(world.judged) == 1
    world.look(1)
    assert (len(world.judged), world.now - begun) == (2, FIRST_RETRY)
    world.look(int(2 * FIRST_RETRY / LOOK) - 1)
    assert len(world.judged) == 2, "the second pause is twice as long"
    world.verdicts[b"new"] = carried(b"new")
    world.look(1)
    world.follower.begin()
    world.follower.on_ended(done=False, reason="stage work: it is broken", now=world.now)
    assert world.says() == ("", "stage work: it is broken", False)
    assert world.follower.document()["digest"] == digest_of(b"first")
    world.text = b"other"
    world.verdicts[b"other"] = carried(b"other")
    world.look()
    assert world.says() == ("", "", False), "a new text is tried at once"
    assert world.follower.wanted == carried(b"other").running


def test_a_text_that_changes_while_it_is_judged_is_judged_again() -> None:
    world = World(text=b"old", verdicts={b"old": carried(b"old"), b"new": carried(b"new")})
    world.look()
    assert world.follower.wanted is not None
    world.text = b"new"
    world.look()
    assert world.follower.wanted == carried(b"new").running
