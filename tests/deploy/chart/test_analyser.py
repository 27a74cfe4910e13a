"""The chart's analyser: its command can be read, and its role is what it calls."""

import asyncio
from pathlib import Path
from random import Random
from typing import cast

from fairlead.cli.main import build_parser
from fairlead.cluster.api import ClusterClient
from fairlead.expect.submitted.live import PodAnalyser, analyse_watched
from tests.deploy.chart.charts import Chart, one
from tests.deploy.chart.test_roles import Recorder, Verbs, allowed
from tests.expect.submitted.test_live import MADE, add_model, submit, until
from tests.modelprofiles.test_store import served

CLAIMS = {"analyser": {"enabled": True, "claims": ["models"]}}
MERGED = {("update", "modelprofiles.fairlead.dev")}
"""Called where another writer stored other figures of the same model."""


def test_the_command_can_be_read_and_names_the_mounted_claims(chart: Chart) -> None:
    documents = chart.render(CLAIMS, namespace="edge")
    spec = one(documents, "Deployment", "fairlead-analyser")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    options = build_parser("profiles").parse_args(container["args"])
    assert (options.from_cluster, options.watch) == (True, True)
    assert options.volume_root == ["edge/models=/volumes/models"]
    assert "/volumes/models" in {mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["claim-models"]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}


def test_the_role_is_what_the_analyser_calls(chart: Chart, tmp_path: Path) -> None:
    async def play() -> Verbs:
        cluster, stop = await served(), asyncio.Event()
        lines: list[str] = []
        await add_model(cluster, tmp_path)
        await submit(cluster, "web")
        recorder = Recorder(cluster)
        client = cast("ClusterClient", recorder)
        analyser = PodAnalyser(client, {}, "n1", lambda: MADE, lines.append, Random(0))
        running = asyncio.create_task(analyse_watched(analyser, None, stop))
        await until(lambda: bool(lines))
        stop.set()
        await running
        return recorder.calls

    role = one(chart.render(CLAIMS), "ClusterRole", "fairlead-analyser")
    assert asyncio.run(play()) | MERGED | {("list", "pods")} == allowed(role)
