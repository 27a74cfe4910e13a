"""The example files that tests of commands share, and the type of the fixture that runs a command."""

from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CLUSTER = str(EXAMPLES / "cluster.yaml")
WORKLOADS = str(EXAMPLES / "workloads.yaml")
Run = Callable[..., tuple[int, str, str]]
