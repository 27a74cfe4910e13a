"""`fairlead profiles import` and `export`: bring profiles from files into a cluster, and back."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

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
        help="store files in the cluster",
        description="Add what files say to what the cluster knows; figures that are there and better stay.",
    )
    bringing.add_argument(
        "file", metavar="FILE", nargs="*", help="profiles, or folders of them (default: those of this user)"
    )
    bringing.add_argument(
        "--model",
        metavar="MODEL",
        action="append",
        default=[],
        help="an ONNX or TFLite file: analyse it and store its work, so that pods may name it before anybody "
        "has run it; may be repeated",
    )
    bringing.add_argument(
        "--shape",
        metavar="NAME=DIMS",
        action="append",
        default=[],
        help="bind what the models leave open: input=1x3x224x224, or batch=1; may be repeated",
    )
    add_node(bringing)
    bringing.set_defaults(run=run_import)
    fetching = verbs.add_parser(
        "export",
        help="write what the cluster knows into files",
        description="Write the cluster's profiles into a folder; what is there already is added to.",
    )
    fetching.add_argument("--folder", metavar="DIR", help="where to (default: the profiles of this user)")
    fetching.set_defaults(run=run_export)
    for verb in (bringing, fetching):
        shared.add_cluster(verb)
        shared.add_output(verb)


def run_import(options: argparse.Namespace) -> int:
    """Store files in the cluster."""
    from fairlead.calibrate.profile import folder
    from fairlead.modelprofiles.convert import calibration_profiles, observed_profile

    if options.shape and not options.model:
        raise SettingsError("--shape without --model", "say --model MODEL, or leave it out")
    usual = [] if options.model else [folder(os.environ)]
    found = read_files(options.file or usual)
    for line in found.damaged:
        print(f"fairlead: left out: {line}", file=sys.stderr)
    node = node_of(options)
    objects = [each for calibration in found.calibrations for each in calibration_profiles(calibration, node)]
    objects += [observed_profile(seen, node) for seen in found.seen]
    objects += analyze_models(options.model, options.shape, node)
    stored = store_profiles(options, objects)
    if options.output != "table":
        show({**stored.to_json(), "left_out": list(found.damaged)}, options.output)
    else:
        print(f"profiles: {stored}")
    return 1 if found.damaged else 0


def analyze_models(models: list[str], shapes: list[str], node: str) -> "list[ModelProfile]":
    """Return what the files of models say of them."""
    from datetime import datetime

    from fairlead.analyze import analyze, parse_shapes
    from fairlead.compat.times import UTC
    from fairlead.modelprofiles.analysed import analysed_profile

    bound, made = parse_shapes(shapes), datetime.now(UTC).isoformat(timespec="seconds")
    return [analysed_profile(analyze(model, bound), made, node) for model in models]


def read_files(places: list[str]) -> "ProfileFolder":
    """Read files, and folders of files; a file that was named must be one."""
    from fairlead.calibrate.profile import ProfileFolder, load_all, load_any
    from fairlead.calibration import Calibration, ObservedUse

    folders = [load_all(place) for place in places if os.path.isdir(place)]
    singles = [load_any(place) for place in places if not os.path.isdir(place)]
    calibrations = [single for single in singles if isinstance(single, Calibration)]
    seen = [single for single in singles if isinstance(single, ObservedUse)]
    return ProfileFolder(
        (*calibrations, *(calibration for found in folders for calibration in found.calibrations)),
        (*seen, *(each for found in folders for each in found.seen)),
        tuple(line for found in folders for line in found.damaged),
    )


def run_export(options: argparse.Namespace) -> int:
    """Write what the cluster knows into files."""
    from fairlead.calibrate.profile_folder import keep

    found = fetch_profiles(options)
    for line in found.unread:
        print(f"fairlead: left out: {line}", file=sys.stderr)
    files = keep(found.calibrations, found.seen, folder_of(options))
    if options.output != "table":
        show({"files": files, "left_out": list(found.unread)}, options.output)
    else:
        print("\n".join(f"wrote {file}" for file in files) or "no profiles")
    return 1 if found.unread else 0
