"""`fairlead rightsize --apply` and `--undo`: dry run, diff, question, write."""

import argparse
import difflib
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.output.show import show, to_yaml
from fairlead.cli.placement import rightsize_page
from fairlead.errors import SettingsError, UserError

if TYPE_CHECKING:
    from fairlead.cluster.config.types import ClusterConfig
    from fairlead.rightsize.change import SizeChange
    from fairlead.rightsize.owners import OwnerChange, PatchMaker
    from fairlead.rightsize.report import SizeReport
    from fairlead.rightsize.workload import WorkloadKey

_KINDS: Final = {
    "deployment": "Deployment",
    "deploy": "Deployment",
    "statefulset": "StatefulSet",
    "sts": "StatefulSet",
    "daemonset": "DaemonSet",
    "ds": "DaemonSet",
    "replicaset": "ReplicaSet",
    "rs": "ReplicaSet",
    "cronjob": "CronJob",
    "cj": "CronJob",
    "job": "Job",
    "pod": "Pod",
    "po": "Pod",
}
_FIELDS: Final = ("workload", "status", "detail", "diff")


def parse_workload(text: str) -> tuple[str, str]:
    """Return the kind and the name of `deployment/web`."""
    kind, slash, name = text.partition("/")
    known = _KINDS.get(kind.lower().removesuffix("s") if kind.lower() not in _KINDS else kind.lower())
    if not slash or not name or "/" in name or known is None:
        raise SettingsError(
            f"{text!r} names no workload", "write it like deployment/web, and -n NS beside it"
        )
    return known, name


def apply(report: "SizeReport", options: argparse.Namespace) -> int:
    """Write the sizes of a report to the owners; the exit code is 1 where one could not be written."""
    from fairlead.rightsize.change import NotChanged, change_of, patch_for

    wanted: dict[WorkloadKey, list[SizeChange]] = {}
    results: list[dict[str, Any]] = []
    for each in report.changes:
        change = change_of(each)
        if isinstance(change, NotChanged):
            results.append(_result(each.container.workload, "not changed", change.reason))
        else:
            wanted.setdefault(each.container.workload, []).append(change)
    makers = {key: partial(_make, patch_for, key, changes) for key, changes in wanted.items()}
    results += _change(makers, options)
    if options.output == "table":
        rightsize_page.show_report(report, options.color)
        _print_results(results)
    else:
        show({**report.to_json(), "applied": results}, options.output)
    return 0 if all(each["status"] == "applied" for each in results) else 1


def _make(patch_for: Any, key: "WorkloadKey", changes: Any, document: Mapping[str, Any]) -> Any:
    return patch_for(key, document, changes)


def undo(options: argparse.Namespace) -> int:
    """Restore the sizes of one owner."""
    from fairlead.cluster.config import kubeconfig
    from fairlead.rightsize.change import TEMPLATES, undo_patch
    from fairlead.rightsize.workload import WorkloadKey

    kind, name = parse_workload(options.undo)
    if kind not in TEMPLATES:
        raise SettingsError(
            f"--undo {options.undo}: fairlead changes no {kind}", f"known: {', '.join(TEMPLATES)}"
        )
    config = kubeconfig.load(options.kubeconfig, options.context)
    key = WorkloadKey(options.namespace or config.namespace or "default", kind, name)
    results = _change({key: partial(undo_patch, key)}, options)
    if options.output == "table":
        _print_results(results)
    else:
        show({"applied": results}, options.output)
    return 0 if all(each["status"] == "applied" for each in results) else 1


def _change(makers: "Mapping[WorkloadKey, PatchMaker]", options: argparse.Namespace) -> list[dict[str, Any]]:
    import asyncio

    from fairlead.cluster.config import kubeconfig

    if not makers:
        return []
    return asyncio.run(_change_all(kubeconfig.load(options.kubeconfig, options.context), makers, options))


async def _change_all(
    config: "ClusterConfig", makers: "Mapping[WorkloadKey, PatchMaker]", options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Try every change at the server, ask once, and write those that it accepts."""
    from fairlead.cluster.client import Client
    from fairlead.errors import ClusterError
    from fairlead.rightsize.change import NotChanged
    from fairlead.rightsize.owners import make_change, try_change

    async with Client.connect(config) as client:
        tried = {key: await try_change(client, key, maker) for key, maker in makers.items()}
        changes = [each for each in tried.values() if not isinstance(each, NotChanged)]
        if changes and not options.dry_run:
            _ask(changes, options)
        results = []
        for key, change in tried.items():
            if isinstance(change, NotChanged):
                results.append(_result(key, "not changed", change.reason))
                continue
            status, detail = ("dry run", "") if options.dry_run else ("applied", "")
            if not options.dry_run:
                try:
                    await make_change(client, change)
                except ClusterError as error:  # those before it are written: the results must be shown
                    maybe = getattr(error, "maybe_done", False)
                    status, detail = "perhaps changed" if maybe else "not changed", str(error)
            results.append(_result(key, status, detail, diff(change)))
        return results


def diff(change: "OwnerChange") -> str:
    """Return the lines of an owner that a change replaces, as a unified diff."""
    name = str(change.workload)
    before, after = (_lines(document) for document in (change.before, change.after))
    return "\n".join(difflib.unified_diff(before, after, name, f"{name} (recommended)", n=2, lineterm=""))


def _lines(document: Mapping[str, Any]) -> list[str]:
    """Return what people change of an owner: not the fields that the server sets with each write."""
    annotations = document.get("metadata", {}).get("annotations") or {}
    kept = {"metadata": {"annotations": annotations}, "spec": document.get("spec", {})}
    return to_yaml(kept).splitlines()


def _ask(changes: "list[OwnerChange]", options: argparse.Namespace) -> None:
    """Show the changes and ask; without a terminal, --yes must be there."""
    if options.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError("nothing is written without an answer", "look first with --dry-run, then add --yes")
    for change in changes:
        print(diff(change), file=sys.stderr)
    owners = ", ".join(str(change.workload) for change in changes)
    print(f"Change {owners}? Their pods are restarted. [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("nothing is written", "answer y, or add --yes")


def _result(workload: "WorkloadKey", status: str, detail: str, text: str = "") -> dict[str, Any]:
    return dict(zip(_FIELDS, (str(workload), status, detail, text), strict=True))


def _print_results(results: list[dict[str, Any]]) -> None:
    for each in results:
        if each["diff"]:
            print(each["diff"])
        print(f"{each['workload']}: {each['status']}" + (f": {each['detail']}" if each["detail"] else ""))
