"""`fairlead lab` verbs for a running lab: kubectl, helm, images, restarts, Prometheus."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from fairlead.cli.lab.verb import add_tool, add_verb, home, split_name
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Column, Fit, Table
from fairlead.cli.output.terminal import Page, show_page


def add(verbs: Any) -> None:
    """Add the verbs to the command line."""
    add_tool(verbs, "kubectl", "run kubectl as the lab's administrator", _kubectl)
    add_tool(verbs, "helm", "run helm as the lab's administrator", _helm)
    load = add_verb(verbs, "load", "import images from archives into every real node", _load, output=True)
    load.add_argument(
        "archives", metavar="ARCHIVE", nargs="+", help="a tar file of docker save, or of an OCI layout"
    )
    restart = add_verb(
        verbs, "restart", "stop a program of a lab and start it again, as it was", _restart, output=True
    )
    restart.add_argument("program", metavar="PROGRAM", help="a program that `fairlead lab status` lists")
    restart.add_argument("--kill", action="store_true", help="stop it by SIGKILL, not by SIGTERM")
    prometheus = add_verb(
        verbs, "prometheus", "start a Prometheus in a lab, or replace its rules", _prometheus, output=True
    )
    add_rules(prometheus)
    add_verb(
        verbs,
        "volumes",
        "start a CSI driver in a lab, whose volumes are on loop devices",
        _volumes,
        output=True,
    )


def add_programs(verb: argparse.ArgumentParser) -> None:
    """Add the options for what runs on real nodes besides."""
    verb.add_argument(
        "--prometheus",
        action="store_true",
        help="node: also a Prometheus that scrapes the pods of fairlead, and annotated ones",
    )
    add_rules(verb)
    verb.add_argument(
        "--volumes",
        action="store_true",
        help="node: also a CSI driver, whose volumes are file systems on loop devices (storage class lab)",
    )


def add_rules(verb: argparse.ArgumentParser) -> None:
    """Add the option for Prometheus rules."""
    verb.add_argument(
        "--rules", metavar="DIR", type=Path, help="a folder of Prometheus rules: all of its *.yaml files"
    )


def _kubectl(options: argparse.Namespace) -> int:
    from fairlead.lab.build.programs import ensure

    name, arguments = split_name(options.arguments)
    lab = home().get(name)
    kubectl = str(ensure(["kubectl"])["kubectl"])
    # Its discovery cache is in the lab's folder, and is removed with the lab.
    env = {**os.environ, "KUBECONFIG": str(lab.kubeconfig), "KUBECACHEDIR": str(lab.folder / "kubectl")}
    sys.stdout.flush()
    os.execve(kubectl, ["kubectl", *arguments], env)  # noqa: S606  # no shell


def _helm(options: argparse.Namespace) -> int:
    from fairlead.lab.control import helm
    from fairlead.lab.run.steps import StepPrinter

    name, arguments = split_name(options.arguments)
    lab = home().get(name)
    program = str(helm.program(StepPrinter(sys.stderr)))
    sys.stdout.flush()
    os.execve(program, ["helm", *arguments], helm.environment(lab, os.environ))  # noqa: S606  # no shell


def _load(options: argparse.Namespace) -> int:
    from fairlead.lab.build.programs import ensure
    from fairlead.lab.node.load import load

    lab = home().get(options.name)
    loaded = load(lab, map(Path, options.archives), ensure(["ctr"])["ctr"])
    documents = [
        {"image": each.image, "archive": str(each.archive), "nodes": list(each.nodes)} for each in loaded
    ]
    if options.output == "table":
        rows = [(each.image, str(each.archive), ",".join(each.nodes)) for each in loaded]
        head = (Column("IMAGE", Fit.KEEP), Column("ARCHIVE", Fit.MIDDLE), Column("NODES"))
        show_page(Page.of(Table.of(head, rows)), options.color)
    else:
        show(documents, options.output)
    return 0


def _restart(options: argparse.Namespace) -> int:
    from fairlead.lab.run.restart import restart
    from fairlead.lab.run.steps import StepPrinter

    result = restart(home(), options.name, options.program, StepPrinter(sys.stderr), kill=options.kill)
    if options.output == "table":
        print(f"{result.program}: process {result.ended} ended, {result.started} is healthy")
    else:
        show(
            {
                "program": result.program,
                "ended_pid": result.ended,
                "started_pid": result.started,
                "killed": result.killed,
                "seconds": result.seconds,
            },
            options.output,
        )
    return 0


def _prometheus(options: argparse.Namespace) -> int:
    from fairlead.lab.control import prometheus
    from fairlead.lab.run.steps import StepPrinter

    lab = prometheus.start(home(), options.name, StepPrinter(sys.stderr), options.rules)
    if options.output == "table":
        print(lab.prometheus)
    else:
        show({"name": lab.name, "prometheus": lab.prometheus}, options.output)
    return 0


def _volumes(options: argparse.Namespace) -> int:
    from fairlead.lab.csi import objects, start
    from fairlead.lab.run.steps import StepPrinter

    lab = start.start(home(), options.name, StepPrinter(sys.stderr))
    if options.output == "table":
        print(objects.CLASS)
    else:
        show({"name": lab.name, "driver": objects.DRIVER, "storage_class": objects.CLASS}, options.output)
    return 0
