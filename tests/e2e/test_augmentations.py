"""An Augmentation on a real node: created, used, rotated, resized, deleted; every byte compared."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.cli.main import main
from tests.e2e.api import wait_for
from tests.e2e.augmentations import GROWS, NAME, LentSlice, expected, kind_installed
from tests.e2e.schedulers import running_scheduler
from tests.labs import RealNode
from tests.pipelineobjects.operated import operator

FILES = {f"/file-{number}": 300_000 + number for number in range(6)}


@pytest.fixture
def lent(real_node: RealNode, node_namespace: str, tmp_path: Path) -> Iterator[LentSlice]:
    """Return a namespace of a node that has the kind, the image, volumes and our scheduler."""
    with kind_installed(real_node), running_scheduler(real_node):
        yield LentSlice(real_node, node_namespace, tmp_path)


def put_files(lent: LentSlice, token: str) -> None:
    for path, size in FILES.items():
        assert lent.device("PUT", path, token, size)["status"] in (201, 204)


def compare_files(lent: LentSlice, token: str) -> None:
    for path, size in FILES.items():
        answer = lent.device("GET", path, token)
        assert (answer["status"], answer.get("sha256")) == (200, expected(size, path)), answer


def test_a_slice_is_lent_used_resized_and_taken_back(
    lent: LentSlice, real_node: RealNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--kubeconfig", str(real_node.kubeconfig), "-n", lent.namespace)

    def command(verb: str, *more: str) -> str:
        code = main(["augment", verb, NAME, *more, *where])
        out, err = capsys.readouterr()
        assert code == 0, (out, err, lent.story())
        return out

    program = "from pathlib import Path; import os, time\nfolder = Path(os.environ['FAIRLEAD_DATA'])\n"
    program += "while True: (folder / 'seen').write_text(str(len(list(folder.iterdir())))); time.sleep(0.1)"
    application = ("--image", "localhost/fairlead-store:0.1.0", "--command", f'python3 -c "{program}"')
    with operator(real_node, lent.namespace, tmp_path / "operator.log"):
        sized = ("--device", "camera-7", "--size", "64Mi", "--class", GROWS)
        command("create", *sized, *application, "--wait", "--timeout", "60s")
        (token,) = lent.tokens()
        put_files(lent, token)
        compare_files(lent, token)
        assert lent.device("GET", "/file-0", "wrong")["status"] == 401
        wait_for("the application to see them", lambda: "seen" in str(list(lent.volume().rglob("seen"))))
        assert lent.device("DELETE", "/file-0", token)["status"] == 204
        assert lent.device("PUT", "/file-0", token, FILES["/file-0"])["status"] == 201
