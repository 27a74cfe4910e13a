"""The configuration that is printed for kube-scheduler, and the command line around it."""

from pathlib import Path

import pytest
import yaml

from fairlead.cli.main import main
from fairlead.errors import SettingsError
from fairlead.serve.extender.config import configuration


def test_with_the_printed_configuration_kube_scheduler_sends_names_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "extender", "--print-config", "https://fairlead.kube-system:19811/"]) == 0
    document = yaml.safe_load(capsys.readouterr().out)
    assert document["kind"] == "KubeSchedulerConfiguration"
    (extender,) = document["extenders"]
    assert extender["urlPrefix"] == "https://fairlead.kube-system:19811"
    assert extender["enableHTTPS"] is True
    assert extender["nodeCacheCapable"] is True
    assert "bindVerb" not in extender
    assert {each["name"] for each in extender["managedResources"]} >= {"fairlead.dev/gpu-mem"}
    assert not any(each["ignoredByScheduler"] for each in extender["managedResources"])


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:19811", "ftp://x", 'http://x"\ny: z', "http://x?y", "http://"]
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="is not the address of an extender"):
        configuration(url)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--policy", "fairled"], "did you mean fairlead?"),
        (["--listen", "nowhere"], "is not an address"),
        (["--tls-cert", "x"], "tls-cert is set and tls-key is not"),
        (["--client-ca", "x"], "client-ca is set and tls-cert is not"),
        (["--kubeconfig", "/none"], "/none"),
        (["--print-config", "x"], "is not the address of an extender"),
    ],
)
def test_invalid_settings_are_refused_before_anything_starts(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "extender", *words]) == 2
    assert says in capsys.readouterr().err


def test_the_page_shows_the_printed_configuration() -> None:
    page = Path(__file__).parents[3] / "docs/how-to/extender.md"
    assert configuration("http://127.0.0.1:19811") in page.read_text()
