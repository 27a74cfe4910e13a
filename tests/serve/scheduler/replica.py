"""A replica as a process that can be killed: `python -m` this, a kubeconfig, a name, and a namespace."""

import sys

from fairlead.cluster import kubeconfig
from fairlead.serve.scheduler.lead import Terms
from fairlead.serve.scheduler.loop import SchedulerSettings
from fairlead.serve.scheduler.program import run
from fairlead.settings import Address
from tests import catalogs


def settings(me: str, namespace: str = "") -> SchedulerSettings:
    """Return settings with little patience; a namespace has a scheduler of its own."""
    terms = Terms(namespace or "kube-system", duration=4.0, deadline=3.0, period=0.3)
    return SchedulerSettings(me, name=namespace or "fairlead", terms=terms)


def main(path: str, me: str, namespace: str = "") -> None:
    """Run until told to stop."""

    def say(line: str) -> None:
        print(f"{me}: {line}", file=sys.stderr, flush=True)

    run(kubeconfig.load(path), catalogs.shipped(), settings(me, namespace), Address("127.0.0.1", 0), say)


if __name__ == "__main__":
    main(*sys.argv[1:])
