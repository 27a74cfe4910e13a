"""`fairlead profiles import --from-manifest` and `--from-cluster`: the models that workloads run."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlead.cli.model.profiles_cluster import node_of, open_cluster, store_profiles
from fairlead.cli.output.show import show
from fairlead.errors import ManifestError, SettingsError
from fairlead.keys import ANALYZE, MODEL

if TYPE_CHECKING:
    from fairlead.cluster.objects import ConfigMap
    from fairlead.expect.submitted.analyse import WorkloadModels
    from fairlead.expect.submitted.contents import Key, ReadableContents
    from fairlead.expect.submitted.live import PodAnalyser
    from fairlead.expect.submitted.workloads import SubmittedWorkload
    from fairlead.modelprofiles.store import StoreCounts
    from fairlead.modelprofiles.types import ModelProfile


def add(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = command.add_argument_group("models of workloads")
    group.add_argument(
        "--from-manifest",
        metavar="FILE",
        help="find the models of the workloads in a manifest (- for the standard input), analyse them, and "
        "print the manifest with the annotation that names each model",
    )
    group.add_argument(
        "--volume-root",
        metavar="NAME=FOLDER",
        action="append",
        default=[],
        help="where the content of a volume lies on this machine, by the volume's name, or NAMESPACE/CLAIM; "
        "may be repeated",
    )
    group.add_argument(
        "--image-archive",
        metavar="[IMAGE=]FILE",
        action="append",
        default=[],
        help="an image as a file: docker save, or an OCI layout as tar; may be repeated",
    )
    group.add_argument("--out", metavar="FILE", help="write the manifest there, not to the standard output")
    group.add_argument(
        "--profiles-out",
        metavar="FILE",
        help="write the profiles there as a manifest, and do not ask the cluster for anything",
    )
    group.add_argument(
        "--from-cluster",
        action="store_true",
        help=f"analyse the models of pending pods that have the annotation {ANALYZE}: auto",
    )
    group.add_argument("--watch", action="store_true", help="with --from-cluster: go on until a signal")
    group.add_argument(
        "-n", "--namespace", metavar="NAME", help="with --from-cluster: the pods of one namespace only"
    )


def run_from_manifest(options: argparse.Namespace) -> int:
    """Find, analyse and store the models of a manifest's workloads, and write it with annotations."""
    from fairlead.expect.submitted.workloads import submitted
    from fairlead.manifest.files.text import read_with_bytes

    data, documents = read_with_bytes(options.from_manifest)
    workloads, config_maps = submitted(documents)
    if not workloads:
        raise ManifestError(
            f"{options.from_manifest}: no workloads in it",
            "name a manifest with a Pod, a Deployment or a Job",
        )
    if not options.profiles_out:
        config_maps |= _cluster_config_maps(options, workloads, set(config_maps))
    results = _analyse(options, workloads, config_maps)
    profiles = _profiles(options, results)
    stored = _store(options, profiles)
    report = _Report(options, results, stored)
    report.write_manifest(data, [value for _, value in documents], workloads)
    report.show()
    return 0 if all(result.is_settled for result in results) else 1


def run_from_cluster(options: argparse.Namespace) -> int:
    """Analyse the models of pending pods that ask for it."""
    import asyncio

    from fairlead.expect.submitted.live import analyse_listed, analyse_watched

    if options.image_archive or options.out or options.profiles_out:
        raise SettingsError(
            "--from-cluster reads no archives and writes no files", "use --from-manifest for these options"
        )

    async def watch(stop: asyncio.Event) -> None:
        async with open_cluster(options) as cluster:
            await analyse_watched(_analyser(options, cluster), options.namespace, stop)

    async def once() -> "list[WorkloadModels]":
        async with open_cluster(options) as cluster:
            return await analyse_listed(_analyser(options, cluster), options.namespace)

    if options.watch:
        from fairlead.serve.until_signal import run_until_signal

        run_until_signal(watch)
        return 0
    results = asyncio.run(once())
    if options.output != "table":
        show({"workloads": [result.to_json() for result in results]}, options.output)
    elif not results:
        print("no pending pod asks for an analysis")
    return 0 if all(result.is_settled for result in results) else 1


def _analyser(options: argparse.Namespace, cluster: Any) -> "PodAnalyser":
    from fairlead.expect.submitted.live import PodAnalyser

    # With a document on the standard output, lines go to the other stream.
    stream = sys.stdout if options.output == "table" else sys.stderr
    return PodAnalyser(
        cluster, _roots(options), node_of(options), _now, lambda line: print(line, file=stream, flush=True)
    )


def _now() -> str:
    from datetime import datetime

    from fairlead.compat.times import UTC

    return datetime.now(UTC).isoformat(timespec="seconds")


def _roots(options: argparse.Namespace) -> dict[str, str]:
    import os

    roots = {}
    for text in options.volume_root:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise SettingsError(f"--volume-root {text}: not NAME=FOLDER", "for example models=/srv/models")
        if not os.path.exists(folder):
            raise SettingsError(
                f"--volume-root {text}: no such folder", "name where the volume's content lies"
            )
        roots[name] = folder
    return roots


def _cluster_config_maps(
    options: argparse.Namespace, workloads: "list[SubmittedWorkload]", known: "set[Key]"
) -> "dict[Key, ConfigMap]":
    """Read the mounted ConfigMaps that are not in the manifest."""
    import asyncio

    from fairlead.expect.submitted.contents import wanted_config_maps
    from fairlead.expect.submitted.live import read_config_maps

    searched = [each.pod for each in workloads if each.wants_analysis and not each.model]
    names = [key for key in wanted_config_maps(searched) if key not in known]
    if not names:
        return {}

    async def inside() -> "dict[Key, ConfigMap]":
        async with open_cluster(options) as cluster:
            return await read_config_maps(cluster, names)

    return asyncio.run(inside())


def _analyse(
    options: argparse.Namespace, workloads: "list[SubmittedWorkload]", config_maps: "dict[Key, ConfigMap]"
) -> "list[WorkloadModels]":
    import tempfile

    from fairlead.expect.submitted.analyse import analyse_workload
    from fairlead.expect.submitted.find import ModelSearch

    with (
        tempfile.TemporaryDirectory(prefix="fairlead-") as scratch,
        _contents(options, config_maps) as contents,
    ):
        search = ModelSearch(contents, scratch)
        return [analyse_workload(workload, search, options.shape) for workload in workloads]


@contextmanager
def _contents(
    options: argparse.Namespace, config_maps: "dict[Key, ConfigMap]"
) -> "Iterator[ReadableContents]":
    from fairlead.expect.submitted.contents import ReadableContents
    from fairlead.expect.submitted.image_archive import open_archive

    with ExitStack() as stack:
        archives = tuple(stack.enter_context(open_archive(text)) for text in options.image_archive)
        yield ReadableContents(config_maps, _roots(options), archives)


def _profiles(options: argparse.Namespace, results: "list[WorkloadModels]") -> "list[ModelProfile]":
    from fairlead.modelprofiles.analysed import analysed_profile

    profiles = {
        (model.profile.name, model.profile.digest): model.profile
        for result in results
        for model in result.models
    }
    return [analysed_profile(profile, _now(), node_of(options)) for profile in profiles.values()]


def _store(options: argparse.Namespace, profiles: "list[ModelProfile]") -> "StoreCounts | None":
    """Store profiles in the cluster, or write them to a file; return what the cluster did with them."""
    if not options.profiles_out:
        return store_profiles(options, profiles) if profiles else None
    from fairlead.cluster.http import codec
    from fairlead.modelprofiles.types import MODEL_PROFILES

    items = [codec.to_document(MODEL_PROFILES, profile) for profile in profiles]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2)
    _write(options.profiles_out, f"{text}\n")
    return None


@dataclass(slots=True)
class _Report:
    """What is printed where."""

    options: argparse.Namespace
    results: "list[WorkloadModels]"
    stored: "StoreCounts | None"
    manifest: str | None = None
    comments_kept: bool = True

    def write_manifest(self, data: bytes, documents: list[Any], workloads: "list[SubmittedWorkload]") -> None:
        """Write the manifest with the annotations."""
        from fairlead.expect.submitted.analyse import SearchStatus
        from fairlead.expect.submitted.annotate import annotate

        additions = {
            (workload.document, workload.template): {MODEL: result.model}
            for workload, result in zip(workloads, self.results, strict=True)
            if result.status is SearchStatus.FOUND
        }
        text, self.comments_kept = annotate(data, documents, additions)
        if self.options.out:
            _write(self.options.out, text)
        else:
            self.manifest = text

    def show(self) -> None:
        """Print the report: beside the manifest on the standard output, it goes to the other stream."""
        if self.options.output != "table":
            document = {
                "workloads": [result.to_json() for result in self.results],
                "profiles": self.stored.to_json() if self.stored else None,
                "manifest": self.manifest,
                "comments_kept": self.comments_kept,
            }
            show(document, self.options.output)
            return
        if self.manifest is not None:
            sys.stdout.write(self.manifest)
        stream = sys.stdout if self.manifest is None else sys.stderr
        for line in self._lines():
            print(line, file=stream)

    def _lines(self) -> Iterator[str]:
        for result in self.results:
            yield f"{result.where}: {result.sentence()}"
            for tried in result.tried:
                yield f"  container {tried.container}: {tried.path or 'no path'}: {tried.reason}"
        if self.stored is not None:
            yield f"profiles: {self.stored}"
        if not self.comments_kept:
            yield "the manifest's comments are lost: its text has no place for a line with the annotation"


def _write(path: str, text: str) -> None:
    from fairlead.outfile import atomic_write

    try:
        with atomic_write(path, text=True) as out:
            out.write(text)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}", "name a file that can be written") from None
