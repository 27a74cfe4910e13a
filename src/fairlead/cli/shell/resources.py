"""Resources of ours in a cluster, for the commands: which one, how it is reached, and what is waited for."""

import argparse
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

_POLL: Final = 0.5
T = TypeVar("T")
Json = dict[str, Any]


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


@dataclass(frozen=True, slots=True)
class StoredKind:
    """A kind of ours, as the commands speak of it."""

    plural: str
    kind: str
    noun: str
    """What one of them is called in messages."""
    make: str
    """The command that makes one."""

    def client_kind(self) -> "Kind[Raw]":
        """Return it as the client knows it."""
        from fairlead.cluster.kinds import Kind
        from fairlead.keys import DOMAIN

        return Kind.of(DOMAIN, "v1alpha1", self.plural, namespaced=True, name=self.kind)


@dataclass(frozen=True, slots=True)
class ResourceAccess:
    """One resource of a cluster."""

    client: "Client"
    namespace: str
    name: str
    stored: StoredKind

    async def read(self) -> Json:
        """Return it as it is stored."""
        try:
            return (await self.client.get(self.stored.client_kind(), self.name, self.namespace)).document()
        except NotFoundError as error:
            raise NotFoundError(
                f"no {self.stored.noun} {self.namespace}/{self.name}",
                f"kubectl get {self.stored.plural} -A lists them; {self.stored.make} makes one",
                code=error.code,
                reason=error.reason,
            ) from None

    async def wait(
        self, seconds: float, is_over: Callable[[Json | None], bool], on_look: Callable[[Json | None], None]
    ) -> Json | None:
        """Return the resource once something is so, or as it is when the time is over; None: it is gone.

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


def with_resource(
    options: argparse.Namespace, stored: StoredKind, name: str, work: Callable[[ResourceAccess], Awaitable[T]]
) -> T:
    """Return what some work with a resource results in."""
    import asyncio

    async def inside() -> T:
        async with _open(options, stored) as (client, namespace):
            return await work(ResourceAccess(client, namespace, name, stored))

    return asyncio.run(inside())


@asynccontextmanager
async def _open(options: argparse.Namespace, stored: StoredKind) -> "AsyncIterator[tuple[Client, str]]":
    from fairlead.cluster.client import Client
    from fairlead.cluster.config import kubeconfig

    config = kubeconfig.load(options.kubeconfig, options.context)
    async with Client.connect(config) as client:
        try:
            yield client, options.namespace or config.namespace
        except MissingApiError as error:
            hint = f"install the kind: fairlead manifests {stored.plural} | kubectl apply -f -"
            raise MissingApiError(str(error), hint) from None
