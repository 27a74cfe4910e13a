"""`fairlead profiles import` and `export`: copy profiles from files into a cluster, and back."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from fairlead.cli.model import profiles_submitted
from fairlead.cli.model.profiles_cluster import add_node, fetch_profiles, folder_of, node_of, store_profiles
from fairlead.cli.output.show import show
from fairlead.cli.shell import options as shared
from fairlead.errors import SettingsError

if TYPE_CHECKING:
    from fairlead.calibrate.profile import ProfileFolder
    from fairlead.modelprofiles.types import ModelProfile


def add(verbs: Any) -> None:
    """Add both verbs."""
    bringing = verbs.add_parser(
        "import",
        help="store profiles from files in the cluster",
        description="Store profiles from files in the cluster; better figures that it has stay.",
    )
    bringing.add_argument(
        "file", metavar="FILE", nargs="*", help="profiles, or folders of them (default: those of this user)"
    )
    bringing.add_argument(
        "--model",
        metavar="MODEL",
        action="append",
        default=[],
        help="an ONNX or TFLite file: analyse it and store its work, so that pods may name it before it has "
        "ever run; may be repeated",
    )
    bringing.add_argument(
        "--shape",
        metavar="NAME=DIMS",
        action="append",
        default=[],
        help="bind an open dimension of the models: input=1x3x224x224, or batch=1; may be repeated",
    )
    add_node(bringing)
    profiles_submitted.add(bringing)
    bringing.set_defaults(run=run_import)
    fetching = verbs.add_parser(
        "export",
        help="write the profiles of the cluster into files",
        description="Write the cluster's profiles into a folder, merged with those it has.",
    )
    fetching.add_argument(
        "--folder", metavar="DIR", help="the folder to write to (default: the profiles of this user)"
    )
    fetching.set_defaults(run=run_export)
    for verb in (bringing, fetching):
        shared.add_cluster(verb)
        shared.add_output(verb)


def run_import(options: argparse.Namespace) -> int:
    """Store files in the cluster."""
    from fairlead.calibrate.profile import default_folder
    from fairlead.modelprofiles.convert import calibration_profiles, observed_profile

    if options.from_manifest or options.from_cluster:
        _check_alone(options)
        if options.from_manifest:
            return profiles_submitted.run_from_manifest(options)
        return profiles_submitted.run_from_cluster(options)
    _check_files(options)
    default = [] if options.model else [default_folder(os.environ)]
    profiles = read_files(options.file or default)
    for line in profiles.damaged:
        print(f"fairlead: skipped: {line}", file=sys.stderr)
    node = node_of(options)
    objects = [
        calibration_profile
        for calibration in profiles.calibrations
        for calibration_profile in calibration_profiles(calibration, node)
    ]
    objects += [observed_profile(seen, node) for seen in profiles.seen]
    objects += analyze_models(options.model, options.shape, node)
    stored = store_profiles(options, objects)
    if options.output != "table":
        show({**stored.to_json(), "left_out": list(profiles.damaged)}, options.output)
    else:
        print(f"profiles: {stored}")
    return 1 if profiles.damaged else 0


def _check_alone(options: argparse.Namespace) -> None:
    """Reject options that do not go together with the models of workloads."""
    if options.from_manifest and options.from_cluster:
        raise SettingsError("--from-manifest with --from-cluster", "choose one of them")
    if options.file or options.model:
        raise SettingsError("profiles or --model beside the models of workloads", "import them separately")
    if options.from_manifest and (options.watch or options.namespace):
        raise SettingsError("--watch and --namespace belong to --from-cluster", "leave them out")


def _check_files(options: argparse.Namespace) -> None:
    """Reject options that need an option which is not there."""
    if options.shape and not options.model:
        raise SettingsError("--shape without --model", "add --model MODEL, or leave --shape out")
    names = ("volume_root", "image_archive", "out", "profiles_out", "watch", "namespace")
    for name in names:
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise SettingsError(
                f"{option} without --from-manifest or --from-cluster",
                f"add one of them, or leave {option} out",
            )


def analyze_models(models: list[str], shapes: list[str], node: str) -> "list[ModelProfile]":
    """Analyse the files of models and return their profiles."""
    from datetime import datetime

    from fairlead.analyze import analyze, parse_shapes
    from fairlead.compat.times import UTC
    from fairlead.modelprofiles.analysed import analysed_profile

    bound, made = parse_shapes(shapes), datetime.now(UTC).isoformat(timespec="seconds")
    return [analysed_profile(analyze(model, bound), made, node) for model in models]


def read_files(places: list[str]) -> "ProfileFolder":
    """Read files, and folders of files; a named file must be a profile."""
    from fairlead.calibrate.profile import ProfileFolder, load_all, load_any
    from fairlead.calibration import Calibration, ObservedUse

    folders = [load_all(place) for place in places if os.path.isdir(place)]
    singles = [load_any(place) for place in places if not os.path.isdir(place)]
    calibrations = [single for single in singles if isinstance(single, Calibration)]
    seen = [single for single in singles if isinstance(single, ObservedUse)]
    return ProfileFolder(
        (*calibrations, *(calibration for part in folders for calibration in part.calibrations)),
        (*seen, *(each for part in folders for each in part.seen)),
        tuple(line for part in folders for line in part.damaged),
    )


def run_export(options: argparse.Namespace) -> int:
    """Write the profiles of the cluster into files."""
    from fairlead.calibrate.profile_folder import add_profiles

    profiles = fetch_profiles(options)
    for line in profiles.unread:
        print(f"fairlead: skipped: {line}", file=sys.stderr)
    files = add_profiles(profiles.calibrations, profiles.seen, folder_of(options))
    if options.output != "table":
        show({"files": files, "left_out": list(profiles.unread)}, options.output)
    else:
        print("\n".join(f"wrote {file}" for file in files) or "no profiles")
    return 1 if profiles.unread else 0
