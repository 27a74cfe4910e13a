"""`fairlead pipeline run --follow`: what a run needs to carry out the changes of its file."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from fairlead.cli.pipeline import hosts
from fairlead.errors import SettingsError

if TYPE_CHECKING:
    from fairlead.pipeline.replan.follower import FileFollower, Verdict
    from fairlead.pipeline.replan.follower import FollowedFile as File
    from fairlead.pipeline.spec import PipelineSpec


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the option."""
    command.add_argument(
        "--follow",
        action="store_true",
        help="read FILE again when it changes, and let stages move to other hosts, or to other addresses of "
        "theirs, while frames flow",
    )


def check_options(options: argparse.Namespace) -> None:
    """Refuse options that do not go together; SettingsError."""
    if options.follow and options.replan:
        raise SettingsError(
            "--follow and --replan: both say where stages are", "leave out one of them: a file, or a plan"
        )


def make_follower(
    options: argparse.Namespace,
    text: bytes,
    spec: "PipelineSpec",
    running: "PipelineSpec",
    log: Callable[[str], None],
) -> "FileFollower":
    """Return what follows the file of a run that begins with a text."""
    from fairlead.pipeline.hosts.followed import judge_change
    from fairlead.pipeline.replan.follower import FileFollower, FollowedFile, digest_of
    from fairlead.pipeline.yaml_file import read_text

    tls = hosts.tls_files(options)

    def judge(file: "File", data: bytes) -> "Verdict":
        return judge_change(file, data, tls, lambda new: hosts.require_private_hosts(new, options))

    first = FollowedFile(digest_of(text), spec, running)
    return FileFollower(first, lambda: read_text(options.file), judge, log)
