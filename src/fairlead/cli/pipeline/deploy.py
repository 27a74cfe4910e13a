"""`fairlead pipeline deploy`: a pipeline's file as a Pipeline of a cluster."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.progress import progress
from fairlead.cli.output.show import show
from fairlead.cli.output.table import Column, Fit, Table
from fairlead.cli.output.terminal import Page, show_error, show_page
from fairlead.cli.pipeline import cluster, cluster_plan
from fairlead.cli.pipeline.cluster import MANAGER
from fairlead.cli.pipeline.cluster_plan import ShownPlan
from fairlead.cli.pipeline.deployed import status_document, status_page, summary
from fairlead.cli.pipeline.files import collect_files
from fairlead.cli.shell import options as shared
from fairlead.cli.shell import resources
from fairlead.cli.shell.resources import ResourceAccess
from fairlead.errors import AlreadyExistsError, ConflictError, NotFoundError, PipelineError

if TYPE_CHECKING:
    from fairlead.pipeline.spec import PipelineSpec
    from fairlead.reconcile import Observed, Reconciled

_PLAN: Final = tuple(Column(each, Fit.KEEP) for each in ("STAGE", "HOST"))
_OBJECTS: Final = tuple(Column(each, Fit.KEEP) for each in ("KIND", "NAME"))
Json = dict[str, Any]


def add(verbs: Any) -> None:
    """Add the command."""
    command = verbs.add_parser(
        "deploy",
        help="run a pipeline in a cluster",
        description="Check a pipeline and store it in a cluster, with its code if that is small: `fairlead "
        "serve operator` makes its pods. Deployed again, it becomes what the file says now. With --wait the "
        "exit code is 1 if it is not ready in time.",
    )
    command.add_argument("file", metavar="FILE", help="the pipeline, in YAML")
    command.add_argument("--name", metavar="NAME", help="its name in the cluster (default: that in the file)")
    command.add_argument(
        "--no-files", action="store_true", help="store no code: the image has the modules of the stages"
    )
    command.add_argument(
        "--include",
        metavar="PATH",
        action="append",
        default=[],
        help="store this file of the folder as well: one that the code opens; may be repeated",
    )
    command.add_argument(
        "--dry-run",
        action="store_true",
        help="show the plan and the objects, and store nothing; with --profile the cluster is asked for its "
        "nodes, otherwise for nothing",
    )
    cluster_plan.add_options(command)
    resources.add_wait(command, "frames flow, or the run is done")
    resources.add_cluster(command)
    shared.add_output(command)
    command.set_defaults(run=_deploy)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is stored in the cluster."""

    resource: Json
    files: Json | None
    """The ConfigMap with the code."""


def _deploy(options: argparse.Namespace) -> int:
    from fairlead.pipeline.yaml_file import read_pipeline

    seconds = resources.wait_seconds(options)
    spec = read_pipeline(options.file)
    files = {} if options.no_files else collect_files(spec, options.include)
    name = options.name or spec.name
    plan = cluster_plan.stored_plan(spec, options)
    deployment = _deployment(options, spec, name, options.namespace or "default", files, plan)
    nodes, not_asked = (
        cluster_plan.read_nodes(options, name) if options.dry_run and plan else (None, "not a dry run")
    )
    observed = _new(deployment.resource, nodes)
    decided = _decide(options.file, observed)
    _note_code(spec)
    if options.dry_run:
        assert decided.status is not None, "a new resource gets a status"
        shown = ShownPlan(observed, decided.status, not_asked) if plan else None
        _show_dry(options, deployment, decided, shown)
        return 0

    async def work(access: ResourceAccess) -> tuple[Json, str]:
        stored = _deployment(options, spec, name, access.namespace, files, plan)
        found, change = await _store(access, stored)
        if options.wait:
            with progress(f"deploying {access.namespace}/{name}") as bar:
                waited = await access.wait(seconds, _is_over, lambda now: bar.set_status(summary(now)))
            found = waited or found
        return found, change

    found, change = cluster.with_pipeline(options, name, work)
    return _report(options, found, change)


def _deployment(
    options: argparse.Namespace,
    spec: "PipelineSpec",
    name: str,
    namespace: str,
    files: Mapping[str, bytes],
    plan: Json | None,
) -> Deployment:
    from fairlead.pipelineobjects.from_file import files_map, resource_of
    from fairlead.yamltext import parse_documents

    with open(options.file, "rb") as file:
        (document,) = parse_documents(file.read())
    resource = resource_of(spec, document, name, namespace, files, plan)
    return Deployment(resource, files_map(name, namespace, files) if files else None)


def _new(resource: Json, nodes: list[Json] | None) -> "Observed":
    """Return a new Pipeline as the operator sees it; None: any node may be there."""
    from fairlead.compat.times import UTC
    from fairlead.ownedobjects.kinds import NODES
    from fairlead.reconcile import Observed

    return Observed(resource, {}, {} if nodes is None else {NODES: nodes}, datetime.now(UTC))


def _decide(path: str, observed: "Observed") -> "Reconciled":
    """Return what the operator would make of a new Pipeline; PipelineError or NoPlanError: nothing."""
    from fairlead.ownedobjects.certificates import NoIssuer
    from fairlead.pipelineobjects.controller import PipelineController

    decided = PipelineController(NoIssuer()).reconcile(observed)
    assert decided.status is not None, "a new resource gets a status"
    accepted = next(each for each in decided.status["conditions"] if each["type"] == "Accepted")
    if accepted["status"] != "True":
        raise PipelineError(f"{path}: {accepted['message']}")
    cluster_plan.require_plan(path, decided.status)
    return decided


def _note_code(spec: "PipelineSpec") -> None:
    """Say what of the code cannot be loaded here: the image may have what this machine lacks."""
    from fairlead.pipeline.check import check_pipeline

    stages = (
        replace(stage, on="local", target="null", options={})
        if stage.role == "sink"
        else replace(stage, on="local")
        for stage in spec.stages
    )
    here = replace(spec, stages=tuple(stages))
    for problem in check_pipeline(here)[1]:
        show_error(f"fairlead: note: {problem.where}: on this machine: {problem.what}")


async def _store(access: ResourceAccess, deployment: Deployment) -> tuple[Json, str]:
    """Store a Pipeline and its code, and return it with what happened."""
    try:
        before: Json | None = await access.read()
    except NotFoundError:
        before = None
    if before is not None and before["metadata"].get("deletionTimestamp"):
        what = f"pipeline {access.namespace}/{access.name} is being deleted"
        raise ConflictError(what, f"wait for it: fairlead pipeline delete {access.name} --wait")
    stored = await access.client.patch(
        cluster.kind(),
        access.name,
        deployment.resource,
        access.namespace,
        patch_type="apply",
        field_manager=MANAGER,
        force=True,
    )
    found = stored.document()
    await _store_files(access, deployment.files, found, before)
    if before is None:
        return found, "created"
    same = before["metadata"]["generation"] == found["metadata"]["generation"]
    return found, "unchanged" if same else "changed"


async def _store_files(access: ResourceAccess, files: Json | None, found: Json, before: Json | None) -> None:
    """Store the code as something that goes with the Pipeline, and drop what no spec names any more."""
    from fairlead.cluster.kinds import CONFIG_MAPS
    from fairlead.keys import PIPELINE_FILES

    kind = CONFIG_MAPS.raw()
    if files is not None:
        owner = {key: found[key] for key in ("apiVersion", "kind")}
        owner |= {key: found["metadata"][key] for key in ("name", "uid")}
        meta = files["metadata"] | {"ownerReferences": [owner]}
        try:
            await access.client.create(kind, {**files, "metadata": meta}, access.namespace)
        except AlreadyExistsError:  # the same content; of an earlier Pipeline of this name, perhaps
            patch = {"metadata": {"ownerReferences": [owner]}}
            await access.client.patch(kind, meta["name"], patch, access.namespace)
    named = [(each["spec"].get("files") or {}).get("configMap") for each in (found, before) if each]
    labels = f"{PIPELINE_FILES}={access.name}"
    for each in (await access.client.list(kind, access.namespace, labels=labels)).items:
        if each.metadata.name not in named:
            await access.client.delete(kind, each.metadata.name, access.namespace)


def _is_over(found: Json | None) -> bool:
    """Return whether a wait is over: frames flow, or never will as it is."""
    from fairlead.ownedobjects import stored

    if found is None:
        return True
    settled = stored.condition(found, "Progressing").get("status") == "False"
    refused = stored.condition(found, "Accepted").get("status") == "False"
    return refused or (settled and stored.is_running(found))


def _report(options: argparse.Namespace, found: Json, change: str) -> int:
    from fairlead.ownedobjects import stored

    name = f"{found['metadata']['namespace']}/{found['metadata']['name']}"
    if options.output != "table":
        show(status_document(found) | {"change": change}, options.output)
    elif options.wait:
        show_page(Page.of(f"{name} {change}", status_page(found)), options.color)
    else:
        hint = f"fairlead pipeline status {found['metadata']['name']} shows how it is doing"
        show_page(Page.of(f"{name} {change}", hint), options.color)
    if not options.wait:
        return 0
    refused = stored.condition(found, "Accepted")
    if refused.get("status") == "False":
        raise PipelineError(f"{options.file}: {refused['message']}")
    is_rolled_back = stored.condition(found, "Progressing").get("reason") == "RolledBack"
    return 0 if _is_over(found) and not is_rolled_back else 1


def _show_dry(
    options: argparse.Namespace, deployment: Deployment, decided: "Reconciled", planned: ShownPlan | None
) -> None:
    objects = [*([deployment.files] if deployment.files else []), *decided.objects]
    assert decided.status is not None, "a new resource gets a status"
    plan = decided.status["plan"]
    if options.output != "table":
        shown = [_without_keys(each) for each in objects]
        placement = {"placement": planned.document()} if planned else {}
        show({"pipeline": deployment.resource, "plan": plan, **placement, "objects": shown}, options.output)
        return
    meta = deployment.resource["metadata"]
    stages = (
        planned.lines() if planned else [Table.of(_PLAN, [(each["stage"], each["host"]) for each in plan])]
    )
    rows = [(each["kind"], each["metadata"]["name"]) for each in (deployment.resource, *objects)]
    head = f"{meta['namespace']}/{meta['name']} would become {len(objects) + 1} objects (nothing was stored)"
    show_page(Page.of(head, "", *stages, "", Table.of(_OBJECTS, rows)), options.color)


def _without_keys(each: Mapping[str, Any]) -> Json:
    """Return an object; the operator makes the keys of a Secret."""
    return dict(each) | ({"data": dict.fromkeys(each["data"], "")} if each["kind"] == "Secret" else {})
