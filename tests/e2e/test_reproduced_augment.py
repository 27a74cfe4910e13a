"""The image job of `fairlead reproduce augment --lab`: the bare command in a pod, and a session of pods."""

import io
import itertools
import json
import os
import subprocess
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.lab.run.steps import StepPrinter
from fairlead.labaugment.objects import BARE
from fairlead.labaugment.site import augment_site, obstacle, start_bare, start_session
from fairlead.reproduce.augment import detector, images
from fairlead.reproduce.augment.bare import BareWorker, run_bare
from fairlead.reproduce.augment.function import IMAGES, MODEL
from fairlead.reproduce.augment.overhead import POD, POD_AND_STORE, POD_FROM_DEVICE
from fairlead.reproduce.augment.session import SplitRun
from tests.labs import skip_without_lab

pytestmark = pytest.mark.skipif(
    os.environ.get("FAIRLEAD_CHAOS") != "long", reason="two minutes: FAIRLEAD_CHAOS=long"
)
COUNT = 6


@pytest.fixture(autouse=True)
def lab_runs_here() -> None:
    """Skip where no lab can run."""
    if no_lab := obstacle():
        skip_without_lab(no_lab)


def test_pods_give_the_results_of_the_bare_command_and_nothing_is_left(tmp_path: Path) -> None:
    names = images.write_images(str(tmp_path / IMAGES), COUNT)
    paths = [str(tmp_path / IMAGES / name) for name in names]
    model = detector.write_model(str(tmp_path))
    results = tmp_path / "in-pod"
    results.mkdir()
    with augment_site(StepPrinter(io.StringIO())) as site:
        lab = site.lab.folder
        start_bare(site, [str(tmp_path / IMAGES), model], results)
        status = subprocess.run(
            [*site.in_pod(BARE), "/usr/bin/cat", "/proc/self/status"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        facts = dict(itertools.pairwise(status))
        assert (facts["Seccomp:"], facts["CapEff:"], facts["NoNewPrivs:"]) == ("2", "0" * 16, "1")
        environ = {MODEL: model}
        worker = BareWorker(IMAGES, paths, environ, enter=site.in_pod(BARE))
        in_pod = run_bare([worker], results)
        bare = run_bare([BareWorker(IMAGES, paths, environ)], tmp_path)
        session = start_session(site, [model], environ, tmp_path / "session", COUNT << 20)
        through = session.run(SplitRun("detect", paths, "server", environ))
        from_device = session.run(SplitRun("detect", paths, "device", environ))
    assert (in_pod.inputs, bare.inputs, through.inputs, from_device.inputs) == (COUNT,) * 4
    assert (through.device_share, from_device.device_share) == (0, 1)
    assert in_pod.cpu is not None
    for name in names:
        mine = (results / "bare-0" / f"{name}.json").read_bytes()
        assert mine == (tmp_path / "bare-0" / f"{name}.json").read_bytes()
    assert not lab.exists()


def test_the_command_measures_pods_among_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--images", "4", "--batches", "8", "--rounds", "1", "--lab", "-o", "json"]
    main(["reproduce", "augment", *words])
    answer = json.loads(capsys.readouterr().out)
    rows = {row["arrangement"]: row for row in answer["rows"] if row["job"] == IMAGES}
    assert all(rows[name]["by_server"] > 0 for name in (POD, POD_AND_STORE, POD_FROM_DEVICE)), answer
    assert not [line for line in answer["missing"] if "pod" in line]
