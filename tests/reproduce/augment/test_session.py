"""A session of this machine: a store, a server's worker and a device that submits, all as processes."""

import os
from pathlib import Path

import pytest

from fairlead.errors import EmulationError
from fairlead.reproduce.augment import documents
from fairlead.reproduce.augment.bare import search_service
from fairlead.reproduce.augment.figures import JobRunFigures
from fairlead.reproduce.augment.function import DOCUMENTS
from fairlead.reproduce.augment.session import SplitRun, _figures, local_session
from fairlead.reproduce.augment.split_cases import pace

JOB = {
    "counts": {"inputs": 4, "done": 4},
    "started": 10.0,
    "last_result": 12.0,
    "workers": [{"site": "device", "done": 1}, {"site": "pod", "done": 3}],
}


def test_device_and_server_do_every_batch_and_nothing_is_left(tmp_path: Path) -> None:
    names = documents.write_batches(str(tmp_path / DOCUMENTS), 12, 20)
    paths = [str(tmp_path / DOCUMENTS / name) for name in names]
    with (
        search_service(tmp_path / "service") as found,
        local_session(tmp_path / "session", 1 << 20) as session,
    ):
        both = session.run(SplitRun("load", paths, "split", {**found, **pace(0.1)}, {**found, **pace(0.1)}))
        alone = session.run(SplitRun("load", paths, "server", {}, found))
    assert (both.inputs, alone.inputs) == (12, 12)
    assert both.device_share is not None
    assert 0 < both.device_share < 1
    assert alone.device_share == 0
    assert both.seconds >= 0.6
    assert os.listdir(tmp_path / "session/state/fairlead/sessions") == []


def test_the_time_is_from_the_first_lease_to_the_last_result() -> None:
    assert _figures(JOB) == JobRunFigures(4, 2.0, device_share=0.25)


def test_an_input_without_a_result_is_no_measurement() -> None:
    with pytest.raises(EmulationError, match="has not done 1 input"):
        _figures({**JOB, "counts": {"inputs": 4, "done": 3}})
