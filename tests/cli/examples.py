"""What tests of commands share: the examples, and how a command is run."""

from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CLUSTER = str(EXAMPLES / "cluster.yaml")
WORKLOADS = str(EXAMPLES / "workloads.yaml")
Run = Callable[..., tuple[int, str, str]]
