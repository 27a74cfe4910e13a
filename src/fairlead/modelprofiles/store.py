"""Keep profiles in a cluster, and read them: many machines write the same object, and none loses a figure."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from fairlead.cluster.api import ClusterClient
from fairlead.cluster.kinds import CRDS
from fairlead.errors import AlreadyExistsError, ConflictError, MissingApiError, NotFoundError
from fairlead.keys import SETUP
from fairlead.modelprofiles.convert import ProfileSet, merge_profiles, profile_set
from fairlead.modelprofiles.types import MODEL_PROFILES, ModelProfile

_TRIES: Final = 12
_PAUSE: Final = 0.02
"""Seconds before the second try, at most; each later one may take half as long again."""
Outcome = Literal["made", "changed", "kept"]


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How many objects were made, changed, or had nothing to learn."""

    made: int = 0
    changed: int = 0
    kept: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the fields of the document."""
        return {"made": self.made, "changed": self.changed, "kept": self.kept}

    def __str__(self) -> str:
        """Return it for people."""
        return f"{self.made} made, {self.changed} changed, {self.kept} as they were"


async def check_served(cluster: ClusterClient) -> None:
    """Raise where profiles cannot be kept here, before anybody spends a minute on measuring."""
    async with _hint_missing_kind():
        # Whoever stores profiles may read one, and need not be allowed to list all.
        with suppress(NotFoundError):
            await cluster.get(MODEL_PROFILES, "none")


async def store(cluster: ClusterClient, profiles: Iterable[ModelProfile], dice: Random) -> StoreCounts:
    """Add what profiles say to what the cluster knows."""
    done: list[Outcome] = []
    async with _hint_missing_kind():
        for profile in profiles:
            done.append(await _store_with_retry(cluster, profile, dice))
    return StoreCounts(done.count("made"), done.count("changed"), done.count("kept"))


async def read_profiles(cluster: ClusterClient, setup: str = "") -> ProfileSet:
    """Return all that a cluster knows, or all of one setup."""
    return profile_set(await list_profiles(cluster, setup))


async def list_profiles(cluster: ClusterClient, setup: str = "") -> tuple[ModelProfile, ...]:
    """Return the objects themselves."""
    async with _hint_missing_kind():
        labels = f"{SETUP}={setup}" if setup else None
        return (await cluster.list(MODEL_PROFILES, labels=labels)).items


async def delete_profiles(cluster: ClusterClient, setup: str) -> int:
    """Delete every profile of a setup; return how many there were."""
    found = await list_profiles(cluster, setup)
    for each in found:
        with suppress(NotFoundError):  # somebody else was quicker
            await cluster.delete(MODEL_PROFILES, each.metadata.name)
    return len(found)


async def delete_kind(cluster: ClusterClient, *, dry: bool = False) -> int:
    """Take the kind away, unless profiles are kept of it: then return how many those are."""
    try:
        kept = len((await cluster.list(MODEL_PROFILES)).items)
    except MissingApiError:
        return 0
    if not kept and not dry:
        with suppress(NotFoundError):
            await cluster.delete(CRDS, MODEL_PROFILES.resource)
    return kept


async def _store_with_retry(cluster: ClusterClient, mine: ModelProfile, dice: Random) -> Outcome:
    for tried in range(_TRIES):
        try:
            return await _store_once(cluster, mine)
        except (AlreadyExistsError, ConflictError) as error:
            if tried == _TRIES - 1:
                raise ConflictError(
                    f"{mine.metadata.name}: others wrote it {_TRIES} times meanwhile: {error}", "try again"
                ) from None
        await asyncio.sleep(dice.uniform(0, _PAUSE * 1.5**tried))
    raise AssertionError("the last try returns or raises")


async def _store_once(cluster: ClusterClient, mine: ModelProfile) -> Outcome:
    try:
        before = await cluster.get(MODEL_PROFILES, mine.metadata.name)
    except NotFoundError:
        await cluster.create(MODEL_PROFILES, mine)
        return "made"
    after = merge_profiles(before, mine)
    if after is before:
        return "kept"
    # The object carries its version: whoever was quicker makes this fail, and both figures are kept.
    await cluster.update(MODEL_PROFILES, after)
    return "changed"


@asynccontextmanager
async def _hint_missing_kind() -> AsyncIterator[None]:
    try:
        yield
    except MissingApiError as error:
        raise MissingApiError(
            str(error),
            "install the chart (profiles.enabled), or: fairlead manifests modelprofiles | kubectl apply -f -",
        ) from None
