"""`fairlead augment create`, `list`, `show` and `delete`, on a real API server beside an operator."""

import json
from collections.abc import Iterator

import pytest

from tests.augmentobjects.test_real_api import AUGMENTATIONS
from tests.augmentobjects.worlds import Cluster
from tests.cli.examples import Run
from tests.labs import RealCluster
from tests.ownedkinds import at, operated, serving_kind

CREATE = ("augment", "create", "cam", "--device", "camera-7", "--size", "2Gi")


@pytest.fixture
def served(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """Return a cluster that serves the kind."""
    yield from serving_kind(real_cluster, "augmentations.yaml", AUGMENTATIONS)


def test_an_augmentation_lives_in_a_cluster(served: RealCluster, run: Run) -> None:
    where = at(served)
    with operated(served, AUGMENTATIONS, Cluster):
        program = ("--image", "detector:1", "--command", "python3 'my detect.py'", "--gpu-mem", "2Gi")
        code, out, err = run(*CREATE, *program, "--env", "MODE=fast", "--wait", *where)
        assert code == 0, err
        assert f"{served.namespace}/cam created" in out
        assert "2 of 2 pods are ready" in out
        code, out, _ = run("augment", "show", "cam", "-o", "json", *where)
        said = json.loads(out)
        assert (code, said["ready"], said["quota"], said["accelerator_memory"]) == (0, True, "2Gi", "2Gi")
        assert said["url"] == "https://10.1.0.1:30443"
        code, out, _ = run("augment", "list", *where)
        assert (code, out.splitlines()[1].split()[:6]) == (0, ["cam", "camera-7", "2Gi", "2Gi", "yes", "n1"])
        assert run("augment", "list", "-A", "-o", "name", *where)[0] == 0
        code, _, err = run(*CREATE, *where)
        assert (code, "exists already" in err) == (1, True)
        code, out, _ = run("augment", "delete", "cam", "--wait", *where)
        assert (code, "its data stays in cam-data" in out) == (0, True)
    code, _, err = run("augment", "show", "cam", *where)
    assert (code, f"no augmentation {served.namespace}/cam" in err) == (1, True)


def test_a_wait_without_an_operator_ends_with_1(served: RealCluster, run: Run) -> None:
    code, out, _ = run(*CREATE, "--wait", "--timeout", "100ms", *at(served))
    assert code == 1
    assert "no operator has looked at it yet" in out
    code, out, _ = run("augment", "delete", "cam", "--delete-data", "-o", "json", *at(served))
    assert (code, json.loads(out)["kept_claims"]) == (0, [])


def test_a_dry_run_shows_the_objects_and_asks_no_cluster(run: Run) -> None:
    code, out, _ = run(*CREATE, "--dry-run", "--kubeconfig", "/nowhere", "--image", "i", "--gpu-mem", "1Gi")
    assert code == 0
    assert "default/cam would become 10 objects (nothing was stored)" in out
    code, out, _ = run(*CREATE, "--dry-run", "-n", "shop", "-o", "json")
    document = json.loads(out)
    assert document["augmentation"]["spec"]["storage"] == {"size": "2Gi", "accessMode": "ReadWriteOnce"}
    secrets = [each["data"] for each in document["objects"] if each["kind"] == "Secret"]
    assert {value for data in secrets for value in data.values()} == {""}
    assert {each["metadata"]["namespace"] for each in document["objects"]} == {"shop"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--size", "0"), "--size 0: that is nothing"),
        (("--size=-1Gi",), "--size -1Gi"),
        (("--size", "much"), "--size much"),
        (("--fast", "2Gi"), "2Gi is not less than the size of 2Gi"),
        (("--gpu-mem", "1Gi"), "these options are about an application, and there is none"),
        (("--image", "i", "--env", "MODE"), "a variable has a name and a value"),
        (("--image", "i", "--command", "a 'b"), "No closing quotation"),
        (("--image", "i", "--user", "0"), "0 is root: choose another user"),
    ],
)
def test_nonsense_is_one_clear_line_and_asks_no_cluster(
    run: Run, options: tuple[str, ...], message: str
) -> None:
    code, _, err = run(*CREATE, *options, "--kubeconfig", "/nowhere")
    assert code == 2
    assert message in err.splitlines()[0]
