"""`fairlead profiles import --from-manifest`: found, analysed, written; and clear reasons otherwise."""

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairlead.cluster.kinds import CONFIG_MAPS, PODS
from fairlead.errors import ManifestError, SettingsError
from fairlead.keys import ANALYZE, DIGEST, MODEL
from fairlead.modelprofiles.types import MODEL_PROFILES
from tests.cli.model.test_profiles import run
from tests.expect.submitted.worlds import docker_save, layer, model
from tests.labs import RealCluster
from tests.profiles import drop, serving_profiles

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  template:
    metadata:
      labels: {{app: web}}  # a comment
    spec:
      containers:
        - name: main
          image: example/app:v1
          args: [--model, {path}]
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
          volumeMounts: [{{name: models, mountPath: /models}}]
      volumes: [{{name: models, persistentVolumeClaim: {{claimName: models}}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: proxy}}
spec: {{containers: [{{name: main}}]}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Return a folder with a model, a manifest that mounts it, and one that has it in its image."""
    data = model(tmp_path)
    (tmp_path / "web.yaml").write_text(MANIFEST.format(path="/models/tiny.onnx"))
    (tmp_path / "image.yaml").write_text(MANIFEST.format(path="/opt/tiny.onnx"))
    (tmp_path / "app.tar").write_bytes(docker_save([layer(("opt/tiny.onnx", data))]))
    return tmp_path


def bring(world: Path, name: str, *words: str) -> int:
    return run(
        "profiles", "import", "--from-manifest", str(world / name), "--profiles-out", str(world / "p"), *words
    )


def test_a_model_in_a_volume(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bring(world, "web.yaml", "--volume-root", f"models={world}") == 0
    out, err = capsys.readouterr()
    deployment, pod = yaml.safe_load_all(out)
    digest = deployment["spec"]["template"]["metadata"]["annotations"]["fairlead.dev/model"]
    assert "# a comment" in out
    assert "annotations" not in pod["metadata"]
    (profile,) = json.loads((world / "p").read_text())["items"]
    assert (profile["kind"], profile["spec"]["digest"]) == ("ModelProfile", digest)
    assert err.splitlines() == [
        f"Deployment default/web: model tiny.onnx ({digest}) at /models/tiny.onnx, volume models at {world}",
        "Pod default/proxy: requests no accelerator; "
        "with the annotation fairlead.dev/analyze: auto it is searched",
    ]


def test_a_model_in_an_image_and_the_document(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--image-archive", str(world / "app.tar"), "-o", "json")
    assert bring(world, "image.yaml", *words, "--out", str(world / "out.yaml")) == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(shown) == ["workloads", "profiles", "manifest", "comments_kept"]
    found, skipped = shown["workloads"]
    assert list(found) == ["workload", "status", "model", "models", "tried", "sentence"]
    assert list(found["models"][0]) == ["container", "path", "source", "name", "digest"]
    assert (found["status"], skipped["status"], shown["manifest"]) == ("found", "skipped", None)
    assert found["model"] in (world / "out.yaml").read_text()
    assert bring(world, "out.yaml", "-o", "json") == 0
    named = json.loads(capsys.readouterr().out)
    assert (named["workloads"][0]["status"], named["manifest"]) == ("named", (world / "out.yaml").read_text())


def test_where_nothing_is_found_the_paths_are_named(
    world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bring(world, "image.yaml") == 1
    out, err = capsys.readouterr()
    assert out == (world / "image.yaml").read_text()
    assert err.splitlines()[:2] == [
        "Deployment default/web: no model found",
        "  container main: /opt/tiny.onnx: in image example/app:v1, of which there is no --image-archive",
    ]
    stdin = io.TextIOWrapper(io.BytesIO((world / "web.yaml").read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("profiles", "import", "--from-manifest", "-", "--profiles-out", str(world / "p")) == 1
    assert "--volume-root default/models=FOLDER" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--watch",), "--watch without"),
        (("--out", "x"), "--out without"),
        (("--from-manifest", "x", "--from-cluster"), "with --from-cluster"),
        (("--from-manifest", "x", "--model", "y"), "beside"),
        (("--from-manifest", "x", "-n", "y"), "belong to --from-cluster"),
        (("--from-cluster", "--out", "y"), "reads no archives"),
    ],
)
def test_options_that_do_not_go_together(words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        run("profiles", "import", *words)


def test_wrong_values_are_user_errors(world: Path) -> None:
    for words in (("--volume-root", "models"), ("--volume-root", f"models={world}/none")):
        with pytest.raises(SettingsError, match="--volume-root"):
            bring(world, "web.yaml", *words)
    with pytest.raises(ManifestError, match="--image-archive"):
        bring(world, "web.yaml", "--image-archive", f"{world}/none")
    (world / "none.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n")
    with pytest.raises(ManifestError, match="no workloads"):
        bring(world, "none.yaml")
    with pytest.raises(SettingsError, match="No such file"):
        bring(world, "web.yaml", "--out", f"{world}/none/out.yaml")


@pytest.fixture
def cluster(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves profiles."""
    yield from serving_profiles(real_cluster)


def gated_pod(name: str, **more: object) -> dict[str, object]:
    """Return a pod that waits for the analysis, with its model in the ConfigMap `models`."""
    main = {
        "name": "main",
        "image": "example/app",
        "args": ["/m/tiny.onnx"],
        "volumeMounts": [{"name": "v", "mountPath": "/m"}],
    }
    spec = {
        "containers": [main],
        "volumes": [{"name": "v", "configMap": {"name": "models"}}],
        "schedulingGates": [{"name": ANALYZE}],
    }
    meta = {"name": name, "annotations": {ANALYZE: "auto"}, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def test_pods_of_a_real_cluster(
    cluster: RealCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"tiny.onnx": base64.b64encode(model(tmp_path, size=1978)).decode()}
    use = ("--kubeconfig", str(cluster.api.kubeconfig))

    async def create() -> None:
        async with cluster.connect() as client:
            config_map = {"metadata": {"name": "models"}, "binaryData": data}
            await client.create(CONFIG_MAPS, config_map, cluster.namespace)
            await client.create(PODS.raw(), gated_pod("web"), cluster.namespace)

    async def read() -> tuple[str, object]:
        async with cluster.connect() as client:
            pod = await client.get(PODS.raw(), "web", cluster.namespace)
            return pod.metadata.annotations.get(MODEL, ""), pod.document()["spec"].get("schedulingGates")

    asyncio.run(create())
    assert run("profiles", "import", "--from-cluster", "-n", cluster.namespace, "-o", "json", *use) == 0
    (result,) = json.loads(capsys.readouterr().out)["workloads"]
    assert asyncio.run(read()) == (result["model"], None)
    pod = gated_pod("other", namespace=cluster.namespace)
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    assert run("profiles", "import", "--from-manifest", str(tmp_path / "pod.json"), "-o", "json", *use) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["profiles"] == {"made": 0, "changed": 0, "kept": 1}
    assert again["workloads"][0]["models"][0]["source"].startswith("ConfigMap "), "read from the cluster"
    asyncio.run(drop(cluster, f"{DIGEST}={result['model']}"))


def test_profiles_in_a_file_can_be_applied(cluster: RealCluster, tmp_path: Path) -> None:
    data = {"tiny.onnx": base64.b64encode(model(tmp_path, size=1979)).decode()}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "models"}, "binaryData": data}
    items = [config_map, gated_pod("web")]
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert bring(tmp_path, "all.json", "--out", str(tmp_path / "out.json")) == 0
    (profile,) = json.loads((tmp_path / "p").read_text())["items"]
    assert profile["spec"]["digest"] in (tmp_path / "out.json").read_text()

    async def apply() -> None:
        async with cluster.connect() as client:
            await client.create(MODEL_PROFILES.raw(), profile)

    asyncio.run(apply())
    asyncio.run(drop(cluster, f"{DIGEST}={profile['spec']['digest']}"))
