"""Whoever is given something, or has it taken back, is on the roster until that is done."""

import asyncio
from datetime import datetime

from fairlead.serve.scheduler.desk import Desk
from fairlead.serve.scheduler.lead import Leader, Terms
from fairlead.serve.scheduler.register import Register
from fairlead.serve.scheduler.roster import ANNOTATION, Roster, parse
from msgspec.structs import replace

from fairlead.cache.cache import SchedulerCache
from fairlead.catalog import Catalog
from fairlead.cluster.kinds import LEASES
from fairlead.cluster.memory import Memory
from fairlead.compat.times import UTC
from fairlead.schedule import policy_named
from tests.serve.scheduler.objects import pod

TERMS = Terms()


async def written(cluster: Memory) -> Roster:
    lease = await cluster.get(LEASES, TERMS.name, TERMS.namespace)
    return parse(lease.metadata.annotations.get(ANNOTATION, ""))


def test_who_is_not_there_by_age_is_by_name_while_something_is_done_for_it(catalog: Catalog) -> None:
    async def scenario() -> None:
        cluster = Memory()
        leader = Leader(cluster, "one", TERMS, clock=lambda: 0.0)
        desk = Desk(SchedulerCache(catalog), policy_named("fairlead"), own_claims=True)
        register = Register(leader, desk, lambda: datetime(1999, 1, 1, tzinfo=UTC))
        await leader.look()
        await register.open(1)
        late = pod("late")
        late = replace(late, metadata=replace(late.metadata, creation_timestamp="2026-01-01T00:00:00Z"))
        assert not (await written(cluster)).covers(late.metadata)
        async with register.entered([late], 1):
            assert (await written(cluster)).covers(late.metadata)
        await leader.look()
        assert not (await written(cluster)).covers(late.metadata)

    asyncio.run(scenario())
