"""The thesis's cuts as pods: one cut on one real node; behind FAIRLEAD_CHAOS=long all of them on two."""

import io
import os
from pathlib import Path

import pytest

from fairlead.lab.build.programs import ensure
from fairlead.lab.run.steps import StepPrinter
from fairlead.labpipeline import site as sites
from fairlead.labpipeline.deployed import run_in_pods
from fairlead.labpipeline.images import PipelineImages
from fairlead.labpipeline.objects import volume_name
from fairlead.labpipeline.site import PodSite, pod_site
from fairlead.reproduce.thesis import kernels
from fairlead.reproduce.thesis.application import CUTS, EDGE, FREE, LOCAL, ThesisWorkload, cut, letters_of
from fairlead.reproduce.thesis.experiment import Emulation
from fairlead.reproduce.thesis.in_pods import MeasuredFrames
from tests.images import operator_archive, pipeline_archive
from tests.labs import RealNode, skip_without_lab
from tests.pipelineobjects.deployed import DeployedPipeline, kind_installed
from tests.pipelineobjects.operated import operator
from tests.reproduce.test_thesis import needs_cc

WORKLOAD = ThesisWorkload(kernels.SLOW, 120, 160)


@needs_cc
def test_a_cut_runs_as_pods_and_leaves_nothing(
    real_node: RealNode, node_namespace: str, tmp_path: Path
) -> None:
    folder, nodes = real_node.folder / f"claims-{node_namespace}", dict.fromkeys((EDGE, LOCAL), "node-1")
    kubectl = ensure(["kubectl"])["kubectl"]
    site = PodSite(real_node.lab, folder, kubectl, namespace=node_namespace, nodes=nodes)
    site.make_claims()
    try:
        with kind_installed(real_node), operator(real_node, node_namespace, tmp_path / "operator.log"):
            (tmp_path / "run").mkdir()
            done = run_in_pods(site, tmp_path / "run", WORKLOAD, cut("EESS", ""), MeasuredFrames(40, 12))
            deployed = DeployedPipeline(real_node, node_namespace)
            deployed.wait_for("nothing to be left", lambda: not deployed.left())
        assert letters_of(done.places) == "EESSS"
        assert done.figures.rate > 0
        assert len(done.figures.latencies) == 9, "of the calm frames, without the first quarter"
        assert set(done.figures.stage_seconds) == set(FREE)
    finally:
        site.kubectl("delete", "pv", *(volume_name(node_namespace, host) for host in nodes), "--wait=false")


@needs_cc
@pytest.mark.skipif(os.environ.get("FAIRLEAD_CHAOS") != "long", reason="three minutes: FAIRLEAD_CHAOS=long")
def test_every_cut_runs_between_two_nodes_with_a_slow_link(tmp_path: Path) -> None:
    if obstacle := sites.obstacle():
        skip_without_lab(obstacle)
    images = PipelineImages(operator_archive(), pipeline_archive())
    # SSSS sends 57,600 bytes for each frame, ESSS 19,200, EESS and EEES 74,576, EEEE a small record.
    settings = Emulation(2e6, delay_s=0.02, edge_cpu=0.5)
    found = {}
    with pod_site(images, settings, StepPrinter(io.StringIO())) as site:
        lab = site.lab.folder
        for letters in CUTS:
            done = run_in_pods(site, tmp_path, WORKLOAD, cut(letters, ""), MeasuredFrames(16, 12))
            assert letters_of(done.places) == letters + letters[-1]
            found[letters] = done.figures
    assert not lab.exists()
    for letters, most in {"SSSS": 4.5, "ESSS": 14.0, "EESS": 3.5, "EEES": 3.5}.items():
        assert found[letters].rate < most * 1.3, "no cut is faster than its bytes on the link"
    assert found["EEEE"].rate > 2 * found["SSSS"].rate
    assert found["EESS"].latency > 0.03, "a delay of 20 ms, and what is more than a burst"
