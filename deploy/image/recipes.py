"""What sets one image apart from another: its name, its packages, and the parts of fairlead that stay out.

There are two, so that each stays small: nodes need no engine and no numpy, and what decides needs nothing
that looks at a machine or talks to a kubelet.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead import __version__

HOUSE: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One image."""

    name: str
    about: str
    """What its label says it does."""
    packages: str
    """Which lock file below requirements/ names the packages."""
    without: tuple[str, ...]
    """Folders of fairlead that it does not need."""
    environment: tuple[str, ...] = ()
    """Variables on top of those that every image has."""

    @property
    def tag(self) -> str:
        """What the image is called."""
        return f"localhost/{self.name}:{__version__}"

    @property
    def lock(self) -> Path:
        """The lock file."""
        return HOUSE / "requirements" / f"{self.packages}.txt"


_TOOLS: Final = ("calibrate", "evaluate", "lab", "simulate", "zoo")
"""What people run at their desks."""

RECIPES: Final = {
    "agent": Recipe(
        "fairlead",
        "Finds a node's accelerators and hands them out to pods.",
        "agent",
        (
            *_TOOLS,
            *("analyze", "cache", "doctor", "estimate", "expect", "manifest", "schedule", "whatif"),
            *("serve/admission", "serve/extender", "serve/scheduler"),
        ),
    ),
    "scheduler": Recipe(
        "fairlead-scheduler",
        "Places pods on nodes, down to the accelerator.",
        "scheduler",
        (*_TOOLS, "detect", "kubelet", "measure", "serve/agent", "warden"),
        # Else numpy starts a thread for each core of the node, for matrices that one is enough for.
        ("OPENBLAS_NUM_THREADS=1",),
    ),
}
