"""The operator as a program: what it refuses before it starts."""

import pytest

from fairlead import __version__
from fairlead.cli.main import main
from fairlead.cluster.config.types import ClusterConfig
from fairlead.errors import UserError
from fairlead.reconcile import Observed
from fairlead.serve.operator import program
from fairlead.serve.operator.controllers import CONTROLLERS
from fairlead.settings.operator import OperatorSettings
from tests.pipelineobjects.worlds import NOW, pipeline


def test_without_a_controller_it_says_so() -> None:
    config = ClusterConfig(server="none", source="none", user="none")
    with pytest.raises(UserError, match="has no controller: the operator would do nothing"):
        program.run(config, OperatorSettings("one"), print, ())


@pytest.mark.parametrize("image", ["registry.example.org/people:3", ""])
def test_pipelines_that_name_no_image_get_that_of_the_settings(image: str) -> None:
    settings = OperatorSettings("one", pipeline_image=image)
    (controller,) = [made for make in CONTROLLERS if (made := make(settings)).resource.kind == "Pipeline"]
    decided = controller.reconcile(Observed(pipeline(), {}, {}, NOW))
    pods = [each for each in decided.objects if each["kind"] == "Pod"]
    images = {each["image"] for pod in pods for each in pod["spec"]["containers"]}
    assert images == {image or f"localhost/fairlead-pipeline:{__version__}"}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--in-flight", "0"), "--in-flight 0: out of range"),
        (("--listen", "nowhere"), "'nowhere' is not an address"),
        (("--tls-cert", "a.crt"), "tls-cert is set and tls-key is not"),
        (("--leader-elect-retry-period", "20s"), "is not less than --leader-elect-renew-deadline"),
        (("--leader-elect-lease-duration", "soon"), "not a duration"),
    ],
)
def test_wrong_options_are_refused(
    words: tuple[str, ...], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "operator", *words]) == 2
    assert fault in capsys.readouterr().err
