"""A replica of the operator as a process that can be killed, with the tests' controller: `python -m` this."""

import sys
from dataclasses import replace

from fairlead.cluster.config import kubeconfig
from fairlead.serve.operator import program
from fairlead.settings import Address
from fairlead.settings.leader import LeaderElectionConfig
from fairlead.settings.operator import OperatorSettings
from tests.serve.operator.widgets import controller

LEASE = 2.0
"""Seconds that a lease lasts without a renewal."""


def main(path: str, me: str, namespace: str, port: str) -> None:
    """Run until SIGTERM; the port leads to the API server through a proxy."""

    def say(line: str) -> None:
        print(line, flush=True)

    config = kubeconfig.load(path)
    if port:
        config = replace(config, server=f"https://127.0.0.1:{port}")
    lease = LeaderElectionConfig(namespace, "fairlead-operator", LEASE, LEASE * 0.75, 0.3)
    settings = OperatorSettings(me, Address("127.0.0.1", 0), lease=lease, answer_within=5.0)
    program.run(config, settings, say, [controller])


if __name__ == "__main__":
    main(*sys.argv[1:])
