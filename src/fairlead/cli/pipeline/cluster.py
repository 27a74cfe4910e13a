"""Pipelines of a cluster, for the commands: which one, and how it is reached."""

import argparse
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fairlead.cli.shell.resources import ResourceAccess, StoredKind, with_resource

if TYPE_CHECKING:
    from fairlead.cluster.kinds import Kind
    from fairlead.cluster.meta import Raw

MANAGER: Final = "fairlead-pipeline"
"""Owns the fields that these commands write."""
PIPELINE: Final = StoredKind("pipelines", "Pipeline", "pipeline", "fairlead pipeline deploy FILE")
T = TypeVar("T")
Json = dict[str, Any]


def kind() -> "Kind[Raw]":
    """Return the kind Pipeline."""
    return PIPELINE.client_kind()


def pipeline_name(text: str) -> str:
    """Return the name of a Pipeline: that of a file, or the text itself."""
    if not (os.path.isfile(text) or "/" in text or text.endswith((".yaml", ".yml"))):
        return text
    from fairlead.pipeline.yaml_file import read_pipeline

    return read_pipeline(text).name


async def set_suspended(access: ResourceAccess, suspended: bool) -> Json:
    """Let a Pipeline end its run, or begin again."""
    await access.read()
    patch = {"spec": {"suspend": suspended}}
    changed = await access.client.patch(kind(), access.name, patch, access.namespace, field_manager=MANAGER)
    return changed.document()


def with_pipeline(
    options: argparse.Namespace, name: str, work: Callable[[ResourceAccess], Awaitable[T]]
) -> T:
    """Return what some work with a Pipeline results in."""
    return with_resource(options, PIPELINE, name, work)
