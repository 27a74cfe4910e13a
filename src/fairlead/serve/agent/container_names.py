"""The names of containers by their ids, from the links that a kubelet keeps in /var/log/containers.

The kubelet's PodResources API has names without ids, and a role cannot limit the right to read pods to those
of one node. The links have names and ids, and the logs that they lead to are elsewhere.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

LINKS: Final = Path("/var/log/containers")
_MOST: Final = 16_384
"""Links that are read; a kubelet runs at most a few hundred containers."""
_LINK: Final = re.compile(
    r"([a-z0-9][a-z0-9.-]{0,252})_([a-z0-9][a-z0-9-]{0,62})_([a-z0-9][a-z0-9-]{0,62})-([0-9a-f]{64})\.log"
)


class ContainerName(NamedTuple):
    """The name of a container, with those of its pod and namespace."""

    namespace: str
    pod: str
    container: str


def container_names(folder: Path = LINKS) -> Mapping[str, ContainerName]:
    """Return the containers of this node by id; none where the folder cannot be read."""
    try:
        names = os.listdir(folder)[:_MOST]
    except OSError:
        return {}
    links = [match for name in names if (match := _LINK.fullmatch(name))]
    return {link[4]: ContainerName(link[2], link[1], link[3]) for link in links}
