"""Weigh the agent as it is shipped: the chart's pod on a real node, everything on, beside what NFD asks for.

A lab with a real kubelet gets the image and the chart; the node looks like one of the hosts in tests/hosts.
Labels, device plugin, claims and warden are on, with the chart's own periods; kubelet and this program ask
the agent for probes and metrics as in any cluster. What is idle is watched for a while, then again with pods
that hold shares of an accelerator. Writes are counted by the agent itself and by the API server.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.labs import CHART, NAMESPACE, counted, node_writes, started
from fairlead.cli.output import to_table
from fairlead.cluster import kubeconfig
from fairlead.cluster.client import Client
from fairlead.cluster.kinds import NODES, PODS, Kind
from fairlead.lab import helm
from fairlead.lab.build import ensure
from fairlead.lab.load import load
from fairlead.lab.narrate import Narrator
from fairlead.lab.state import Lab, Profile
from fairlead.lab.up import Wish
from tests.e2e.machines import Machine
from tests.images import agent_archive

MEMORY_BAR, CPU_BAR = 64.0, 0.2
"""MiB, and percent of a core; and no write at all."""
NFD = "node-feature-discovery v0.19.0, deployment/helm/node-feature-discovery/values.yaml: worker.resources"
NFD_CPU, NFD_MEMORY, NFD_LIMIT = 0.5, 64.0, 512.0
"""What the chart of NFD's worker asks for, and its limit of memory: 5m, 64Mi, 512Mi."""
SCRAPES = 15.0
PATIENCE = 120.0
PORT = 19809
DAEMON_SETS = Kind.of("apps", "v1", "daemonsets", namespaced=True)
PARTS: Mapping[str, str] = {"agent": "serve agent", "warden": "fairlead.warden.__main__"}
"""The containers, and what their processes are told by."""
SHARE: Mapping[str, str] = {"fairlead.dev/gpu-mem": "1024"}
"""MiB of an accelerator that one pod holds."""
_WRITES = re.compile(r"^fairlead_api_writes_total\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Weight:
    """What a process costs."""

    resident: float
    """MiB."""
    own: float
    """MiB, where pages that several processes share count in part (PSS)."""
    cpu: float
    """Percent of a core."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What was seen during one while."""

    name: str
    parts: Mapping[str, Weight]
    writes: int
    """By the agent's own count."""
    seen: int
    """Of nodes (not their status) and slices, by the API server's count, whoever wrote them."""

    @property
    def met(self) -> bool:
        """Whether the agent keeps within its bars."""
        agent = self.parts["agent"]
        return agent.resident <= MEMORY_BAR and agent.cpu <= CPU_BAR and not self.writes and not self.seen

    def rows(self) -> list[tuple[str, ...]]:
        """Return it for a table."""
        both = list(self.parts.values())
        together = Weight(*(sum(getattr(each, field) for each in both) for field in ("resident", "own", "cpu")))
        columns = (self.parts["agent"], self.parts["warden"], together)
        return [
            (
                self.name,
                "resident, MiB",
                *(f"{each.resident:.1f}" for each in columns),
                _judged((self.parts["agent"].resident, together.resident), MEMORY_BAR),
                f"{NFD_MEMORY:g}, limit {NFD_LIMIT:g}",
            ),
            ("", "of it its own (PSS)", *(f"{each.own:.1f}" for each in columns), "", ""),
            (
                "",
                "CPU, % of a core",
                *(f"{each.cpu:.3f}" for each in columns),
                _judged((self.parts["agent"].cpu, together.cpu), CPU_BAR),
                f"{NFD_CPU:g}",
            ),
            (
                "",
                "API writes",
                str(self.writes),
                "-",
                f"{self.seen} seen",
                _judged((self.writes, self.seen), 0),
                "-",
            ),
        ]


def _judged(found: tuple[float, float], bar: float) -> str:
    """Say whether the agent alone and both together keep within a bar."""
    alone, together = ("PASS" if value <= bar else "over" for value in found)
    return f"<= {bar:g}: {alone}, together {together}"
