"""Store profiles in a cluster, and read them: many machines write the same object, and no figure is lost."""

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
"""The longest pause before the second try, in seconds; each later pause is up to half as long again."""
Outcome = Literal["made", "changed", "kept"]


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """The numbers of objects that were created, changed, or left unchanged."""

    made: int = 0
    changed: int = 0
    kept: int = 0

    def to_json(self) -> dict[str, int]:
        """Return the fields of the document."""
        return {"made": self.made, "changed": self.changed, "kept": self.kept}

    def __str__(self) -> str:
        """Return the numbers as text."""
        return f"{self.made} created, {self.changed} changed, {self.kept} unchanged"


async def check_served(cluster: ClusterClient) -> None:
    """Raise an error where the cluster cannot store profiles, before a user spends minutes on measuring."""
    async with _hint_missing_kind():
        # An account that stores profiles may read one, and need not be allowed to list all.
        with suppress(NotFoundError):
            await cluster.get(MODEL_PROFILES, "none")


async def store(cluster: ClusterClient, profiles: Iterable[ModelProfile], random: Random) -> StoreCounts:
    """Merge profiles into those of the cluster."""
    outcomes: list[Outcome] = []
    async with _hint_missing_kind():
        for profile in profiles:
            outcomes.append(await _store_with_retry(cluster, profile, random))
    return StoreCounts(outcomes.count("made"), outcomes.count("changed"), outcomes.count("kept"))


async def read_profiles(cluster: ClusterClient, setup: str = "") -> ProfileSet:
    """Return the content of all profiles of a cluster, or of one setup."""
    return profile_set(await list_profiles(cluster, setup))


async def list_profiles(cluster: ClusterClient, setup: str = "") -> tuple[ModelProfile, ...]:
    """Return the profiles of a cluster as objects, or those of one setup."""
    async with _hint_missing_kind():
        labels = f"{SETUP}={setup}" if setup else None
        return (await cluster.list(MODEL_PROFILES, labels=labels)).items


async def delete_profiles(cluster: ClusterClient, setup: str) -> int:
    """Delete every profile of a setup; return their number."""
    profiles = await list_profiles(cluster, setup)
    for profile in profiles:
        with suppress(NotFoundError):  # another client deleted it first
            await cluster.delete(MODEL_PROFILES, profile.metadata.name)
    return len(profiles)


async def delete_kind(cluster: ClusterClient, *, dry: bool = False) -> int:
    """Delete the kind unless it has profiles; return their number."""
    try:
        count = len((await cluster.list(MODEL_PROFILES)).items)
    except MissingApiError:
        return 0
    if not count and not dry:
        with suppress(NotFoundError):
            await cluster.delete(CRDS, MODEL_PROFILES.resource)
    return count


async def _store_with_retry(cluster: ClusterClient, profile: ModelProfile, random: Random) -> Outcome:
    for attempt in range(_TRIES):
        try:
            return await _store_once(cluster, profile)
        except (AlreadyExistsError, ConflictError) as error:
            if attempt == _TRIES - 1:
                raise ConflictError(
                    f"{profile.metadata.name}: other writers changed it {_TRIES} times meanwhile: {error}",
                    "try again",
                ) from None
        await asyncio.sleep(random.uniform(0, _PAUSE * 1.5**attempt))
    raise AssertionError("the last attempt returns or raises")


async def _store_once(cluster: ClusterClient, profile: ModelProfile) -> Outcome:
    try:
        before = await cluster.get(MODEL_PROFILES, profile.metadata.name)
    except NotFoundError:
        await cluster.create(MODEL_PROFILES, profile)
        return "made"
    after = merge_profiles(before, profile)
    if after is before:
        return "kept"
    # The object carries its resourceVersion: if another writer was faster, this fails, and both figures stay.
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
