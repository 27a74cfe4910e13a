"""A recording with measured use is replayed with the same effects, also in another process."""

from pathlib import Path

from fairlead.cli.main import main
from fairlead.serve.machine.recording import encode_effects
from fairlead.serve.scheduler.replay import recorder
from fairlead.use import UseFault
from tests.serve.scheduler.use.world import SharedNode, settings


def test_measured_use_is_recorded_and_replayed(tmp_path: Path) -> None:
    it = SharedNode()
    it.learn()
    it.create("low", 6144)
    it.create("high", 6144, priority=5)
    it.measure({"low": 1.5, "high": 1.5}, foreign=0.5)
    it.fail(UseFault.GARBAGE)
    for held in (2.5, 4.0, 5.5):
        it.measure({"low": 1.5, "high": held} if not it.api.evicted else {"high": held})
    assert it.api.evicted
    path = tmp_path / "recording"
    writing = recorder(path, settings())
    for event, now, effects in it.replica.history:
        writing.event(event, now)
        writing._file.write((effects or encode_effects([])) + b"\n")
    writing.close()
    assert main(["replay", str(path)]) == 0
