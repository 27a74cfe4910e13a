"""Pipelines of a cluster, for the commands: which one, how it is reached, and what is waited for."""

import argparse
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fairlead.cli.shell import options as shared
from fairlead.errors import (
    ClusterUnavailableError,
    FairleadError,
    MissingApiError,
    NotFoundError,
    SettingsError,
)
from fairlead.units import parse_duration

if TYPE_CHECKING:
    from fairlead.cluster.client import Client
    from fairlead.cluster.kinds import Kind
    from fairlead.cluster.meta import Raw

MANAGER: Final = "fairlead-pipeline"
"""Owns the fields that these commands write."""
_POLL: Final = 0.5
T = TypeVar("T")
Json = dict[str, Any]


def kind() -> "Kind[Raw]":
    """Return the kind Pipeline."""
    from fairlead.cluster.kinds import Kind
    from fairlead.keys import DOMAIN

    return Kind.of(DOMAIN, "v1alpha1", "pipelines", namespaced=True, name="Pipeline")


def add_cluster(command: argparse.ArgumentParser) -> None:
    """Add the options that choose a cluster and a namespace."""
    command.add_argument(
        "-n", "--namespace", metavar="NAME", help="the namespace (default: that of the context)"
    )
    shared.add_cluster(command)


def add_wait(command: argparse.ArgumentParser, until: str) -> None:
    """Add the options that wait."""
    command.add_argument("--wait", action="store_true", help=f"wait until {until}")
    command.add_argument(
        "--timeout", metavar="TIME", default="5m", help="how long --wait waits (default: %(default)s)"
    )


def wait_seconds(options: argparse.Namespace) -> float:
    """Return how long to wait; SettingsError."""
    try:
        return float(parse_duration(options.timeout))
    except ValueError as error:
        raise SettingsError(f"--timeout {options.timeout}: {error}", "write for example 5m") from None


def pipeline_name(text: str) -> str:
    """Return the name of a Pipeline: that of a file, or the text itself."""
    if not (os.path.isfile(text) or "/" in text or text.endswith((".yaml", ".yml"))):
        return text
    from fairlead.pipeline.yaml_file import read_pipeline

    return read_pipeline(text).name


@dataclass(frozen=True, slots=True)
class PipelineAccess:
    """One Pipeline of a cluster."""

    client: "Client"
    namespace: str
    name: str

    async def read(self) -> Json:
        """Return it as it is stored."""
        try:
            return (await self.client.get(kind(), self.name, self.namespace)).document()
        except NotFoundError as error:
            raise NotFoundError(
                f"no pipeline {self.namespace}/{self.name}",
                "kubectl get pipelines -A lists them; fairlead pipeline deploy FILE makes one",
                code=error.code,
                reason=error.reason,
            ) from None

    async def set_suspended(self, suspended: bool) -> Json:
        """Let it end its run, or begin again."""
        await self.read()
        patch = {"spec": {"suspend": suspended}}
        changed = await self.client.patch(kind(), self.name, patch, self.namespace, field_manager=MANAGER)
        return changed.document()

    async def wait(
        self, seconds: float, is_over: Callable[[Json | None], bool], on_look: Callable[[Json | None], None]
    ) -> Json | None:
        """Return the Pipeline once something is so, or as it is when the time is over; None: it is gone.

        A cluster that is away is asked again until the time is over.
        """
        import asyncio

        end = time.monotonic() + seconds
        while True:
            away: FairleadError | None = None
            found: Json | None = None
            try:
                found = await self.read()
            except NotFoundError:
                pass
            except ClusterUnavailableError as error:
                away = error
            if away is None:
                on_look(found)
                if is_over(found):
                    return found
            if time.monotonic() >= end:
                if away is not None:
                    raise away
                return found
            await asyncio.sleep(_POLL)


def with_pipeline(
    options: argparse.Namespace, name: str, work: Callable[[PipelineAccess], Awaitable[T]]
) -> T:
    """Return what some work with a Pipeline results in."""
    import asyncio

    async def inside() -> T:
        async with _open(options, name) as access:
            return await work(access)

    return asyncio.run(inside())


@asynccontextmanager
async def _open(options: argparse.Namespace, name: str) -> AsyncIterator[PipelineAccess]:
    from fairlead.cluster.client import Client
    from fairlead.cluster.config import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    async with Client.connect(config) as client:
        try:
            yield PipelineAccess(client, options.namespace or config.namespace, name)
        except MissingApiError as error:
            hint = "install the kind: fairlead manifests pipelines | kubectl apply -f -"
            raise MissingApiError(str(error), hint) from None
