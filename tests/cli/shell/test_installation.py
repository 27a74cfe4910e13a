"""The advice how to add an extra, for each kind of installation."""

import argparse
from dataclasses import replace

import pytest

from fairlead.cli.shell.extras import advice, extras_of
from fairlead.cli.shell.installation import Installation
from tests.test_house import HOUSE

PLAIN = Installation(python="/e/bin/python", pip="pip", installer="pip")
WHEEL = "file:///d/fairlead-0.1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("installation", "advice_text"),
    [
        (PLAIN, "pip install 'fairlead[scheduler]'"),
        (replace(PLAIN, origin=WHEEL), "pip install 'fairlead[scheduler]'"),
        (replace(PLAIN, pip="/e/bin/python -m pip"), "/e/bin/python -m pip install 'fairlead[scheduler]'"),
        (replace(PLAIN, pip=""), "pip --python /e/bin/python install 'fairlead[scheduler]'"),
        (
            replace(PLAIN, pip="", installer="uv"),
            "uv pip install --python /e/bin/python 'fairlead[scheduler]'",
        ),
        (replace(PLAIN, checkout="/c"), "pip install -e '/c[scheduler]'"),
        (replace(PLAIN, checkout="/c", makes=True), "make -C /c setup"),
        (replace(PLAIN, tool="pipx"), "pipx install --force 'fairlead[scheduler]'"),
        (replace(PLAIN, tool="pipx", origin=WHEEL), f"pipx install --force 'fairlead[scheduler] @ {WHEEL}'"),
        (replace(PLAIN, tool="uv"), "uv tool install --force 'fairlead[scheduler]'"),
        (replace(PLAIN, managed=True), "&& ~/fairlead/bin/pip install 'fairlead[scheduler]'"),
        (
            replace(PLAIN, pip="", installer=""),
            "environment with the extra: pip install 'fairlead[scheduler]'",
        ),
    ],
)
def test_advice_fits_the_installation(installation: Installation, advice_text: str) -> None:
    assert installation.advice(["scheduler"]).endswith(advice_text)


def options(command: str, **more: object) -> argparse.Namespace:
    usual = {"cluster": None, "kubeconfig": None, "context": None}
    return argparse.Namespace(command=command, **{**usual, **more})


@pytest.mark.parametrize(
    ("called", "extras"),
    [
        (options("schedule"), ("scheduler",)),
        (options("simulate", cluster="x.yaml"), ("simulate",)),
        (options("serve", program="agent"), ("agent",)),
        (options("serve", program="extender"), ("scheduler",)),
        (options("bench", verb="predict"), ("predict",)),
        (options("bench", verb="openb"), ("simulate",)),
        (options("estimate"), ("predict",)),
        (options("analyze", train=True), ("predict",)),
        (options("estimate", cluster=True), ("predict", "cluster")),
        (options("calibrate", kubeconfig="x"), ("calibrate", "cluster")),
        (options("profiles", verb="list"), ("cluster",)),
        (options("reproduce", verb="pipeline", lab=False), ("pipeline-hosts",)),
        (options("reproduce", verb="devices"), ("predict",)),
        (options("reproduce", verb="augment", lab=False), ("search",)),
        (options("reproduce", verb="augment", lab=True), ("search", "lab")),
        (options("reproduce", verb="all"), ("simulate", "pipeline-hosts", "search")),
        (options("reproduce", verb="pipeline", lab=True), ("pipeline-hosts", "lab", "pipeline-cluster")),
        (options("a command of tomorrow"), ("all",)),
    ],
)
def test_a_command_names_the_extras_it_needs(called: argparse.Namespace, extras: tuple[str, ...]) -> None:
    assert extras_of(called) == extras


def test_a_checkout_is_recognised() -> None:
    here = Installation.here()
    assert here.checkout == str(HOUSE)
    assert here.tool == ""
    assert advice(options("schedule")) == here.advice(["scheduler"])
