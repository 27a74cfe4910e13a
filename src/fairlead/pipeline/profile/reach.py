"""Connect with the hosts of a pipeline, and measure the links between all machines."""

from collections.abc import Callable, Iterator

from fairlead.errors import FairleadError
from fairlead.pipeline.link.tls import HostTlsFiles
from fairlead.pipeline.profile.facts import LinkFacts
from fairlead.pipeline.profile.link_rate import LinkRates, measure_link
from fairlead.pipeline.profile.machine import MOST_EDGE, ProfiledLocal, ProfiledMachine, ReachedMachines
from fairlead.pipeline.profile.remote import ProfiledHost
from fairlead.pipeline.spec import LOCAL, PipelineSpec


def reach_hosts(
    spec: PipelineSpec,
    tls: HostTlsFiles | None,
    seconds: float,
    on_step: Callable[[str], None] = lambda line: None,
) -> ReachedMachines:
    """Return the machines of a pipeline; a record is sent to a host for at most some seconds."""
    notes: list[str] = []
    hosts: list[ProfiledHost] = []
    for host in spec.hosts:
        if host.address:
            on_step(f"connecting with {host.name}")
            try:
                hosts.append(ProfiledHost(host, tls))
            except FairleadError as error:
                notes.append(f"host {host.name} is left out: {error}")
    links = tuple(_measure_links(hosts, tls, notes, on_step))
    for machine in hosts:
        rate = next((link.bytes_per_s for link in links if link.target == machine.host.name), MOST_EDGE)
        machine.send_bytes = min(MOST_EDGE, rate * seconds)
    machines: dict[str, ProfiledMachine] = {LOCAL: ProfiledLocal(spec.folder)}
    return ReachedMachines(machines | {each.host.name: each for each in hosts}, links, tuple(notes))


def _measure_links(
    hosts: list[ProfiledHost], tls: HostTlsFiles | None, notes: list[str], on_step: Callable[[str], None]
) -> Iterator[LinkFacts]:
    for index, host in enumerate(hosts):
        name = host.host.name
        on_step(f"measuring the link with {name}")
        try:
            yield from _both_ways(LOCAL, name, measure_link(host.host.address, tls))
        except FairleadError as error:
            notes.append(f"the link {LOCAL}->{name} is not known: {error}")
        for other in hosts[index + 1 :]:
            on_step(f"measuring the link {name}->{other.host.name}")
            try:
                yield from _both_ways(name, other.host.name, host.measure_link(other.host))
            except FairleadError as error:
                notes.append(f"the link {name}->{other.host.name} is not known: {error}")


def _both_ways(one: str, other: str, rates: LinkRates) -> Iterator[LinkFacts]:
    yield LinkFacts(one, other, rates.there, rates.delay_s)
    yield LinkFacts(other, one, rates.back, rates.delay_s)
