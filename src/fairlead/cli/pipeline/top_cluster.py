"""The run of a pipeline of a cluster, for `fairlead pipeline top`: its status, read from its coordinator."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairlead.cli.pipeline.cluster import pipeline_name, with_pipeline
from fairlead.errors import ClusterUnavailableError, NotFoundError, SettingsError

if TYPE_CHECKING:
    from fairlead.cli.shell.resources import ResourceAccess
    from fairlead.whatif.pod_program import NoAnswer

Json = dict[str, Any]


def is_of_a_cluster(options: argparse.Namespace) -> bool:
    """Return whether the options name a cluster, or a namespace of one."""
    named = any(value is not None for value in (options.namespace, options.kubeconfig, options.context))
    return named or getattr(options, "kubectl", False)


def open_run(options: argparse.Namespace) -> tuple[Json, Callable[[], Json | None]]:
    """Return the status of a run, and what reads it again as `RunSocket.read` does."""
    from fairlead.whatif.pod_program import NoAnswer

    if not options.name:
        raise SettingsError("no pipeline is named", "name one: kubectl get pipelines -A lists them")
    name = pipeline_name(options.name)
    first = with_pipeline(options, name, _read)
    if isinstance(first, NoAnswer):
        raise SettingsError(
            f"{name}: {first.reason}", f"fairlead explain pipeline {name} shows what is known of it"
        )

    def read() -> Json | None:
        try:
            status = with_pipeline(options, name, _read)
        except NotFoundError:
            return None
        except ClusterUnavailableError as error:
            raise ConnectionError(str(error)) from None
        if isinstance(status, NoAnswer):
            raise ConnectionError(status.reason)
        return status

    return first, read


async def _read(access: "ResourceAccess") -> "Json | NoAnswer":
    """Return the status of the run, or why there is none; NotFoundError where there is no such pipeline."""
    from fairlead.cluster.kinds import PODS
    from fairlead.keys import PIPELINE, PIPELINE_HOST
    from fairlead.pipelineobjects.names import LOCAL
    from fairlead.whatif.pipeline.observed import ObservedPod
    from fairlead.whatif.pipeline.run_page import read_run

    await access.read()
    labels = f"{PIPELINE}={access.name},{PIPELINE_HOST}={LOCAL}"
    listed = await access.client.list(PODS.raw(), access.namespace, labels=labels)
    pods = [pod for pod in (ObservedPod.of(each.document()) for each in listed.items) if not pod.is_ending]
    return await read_run(access.client, next(iter(pods), None), access.name)
