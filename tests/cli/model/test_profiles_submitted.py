"""`fairlead profiles import --from-manifest`: found, analysed, written; and clear reasons otherwise."""

import io
import json
from pathlib import Path

import pytest
import yaml

from fairlead.errors import ManifestError, SettingsError
from tests.cli.model.test_profiles import run
from tests.expect.submitted.worlds import docker_save, layer, model

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
