"""The recipes of the images: name, packages, and the parts of fairlead that each leaves out.

Each is small: agents need no scheduling engine and no numpy, the scheduler needs no code that scans a machine
or talks to a kubelet, the operator places nothing, and the pods of a pipeline or an augmentation need no
client of a cluster.
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
    """The description in its label."""
    packages: str
    """The lock file below requirements/."""
    without: tuple[str, ...]
    """Folders and modules of fairlead that it does not need."""
    environment: tuple[str, ...] = ()
    """Variables beside those of every image."""
    keeps_memory: bool = False
    """Whether freed memory is kept: each frame of a stream would be mapped and unmapped."""
    named: str = ""
    """Another name and tag than those of the release."""
    standard: tuple[str, ...] = ()
    """Modules of the standard library that the other images do without."""
    pure: tuple[str, ...] = ()
    """Packages without compiled parts that are published as source alone."""
    other_lock: Path | None = None
    """A user's lock file instead of that below requirements/."""

    @property
    def tag(self) -> str:
        """The image's name and tag."""
        return self.named or f"localhost/{self.name}:{__version__}"

    @property
    def lock(self) -> Path:
        """The lock file."""
        return self.other_lock or HOUSE / "requirements" / f"{self.packages}.txt"


_WORKSTATION: Final = (
    *("calibrate", "evaluate", "lab", "labaugment", "labpipeline", "reproduce", "simulate", "splitbench"),
    "zoo",
    *("history", "local", "cli/local/live", "rightsize/local.py"),  # the queue of one machine
    *("cli/dashboard/sessions.py", "cli/kubectl", "dump"),
    *(f"cli/local/{name}.py" for name in ("limiter_check", "machine_check", "queue_line", "submission")),
    *(f"sharebench/{name}.py" for name in ("comparison", "enforce", "figures", "plot", "rules")),
    *("sharebench/ort_network.py", "sharebench/torch_network.py"),
)
"""Packages for workstations, which no image needs."""
_TOOLS: Final = (
    *_WORKSTATION,
    "augmentobjects",
    "authority.py",
    "ownedobjects",
    "pipeline",
    "pipelineobjects",
)
_OF_NODES: Final = ("attribution", "detect", "enforcement", "kubelet", "measure", "serve/agent", "warden")
_OF_DECISIONS: Final = (
    *("analyze", "cache", "catalog", "cel", "doctor", "estimate", "expect", "manifest", "modelprofiles"),
    *("publish", "rightsize", "schedule", "sizing", "training", "usage", "whatif"),
    *("serve/admission", "serve/extender", "serve/scheduler"),
)
"""What only the scheduler needs, and programs that explain its decisions."""

_OF_DASHBOARDS: Final = ("dashboard", "serve/dashboard")
"""What serves the page of a cluster."""
_OF_WORKERS: Final = ("device", "executors", "splitting", "splitwork", "submission")
"""What works on the jobs of a session: the application of an augmentation."""
_OF_STORES: Final = ("augment", "cli/augment/tier_status.py", "store", "tiering")
"""What only the store of an augmentation needs, and the devices that use it."""

RECIPES: Final = {
    "agent": Recipe(
        "fairlead",
        "Finds a node's accelerators and allocates them to pods.",
        "agent",
        (
            *_TOOLS,
            *_OF_STORES,
            *_OF_WORKERS,
            *_OF_DASHBOARDS,
            *(
                "analyze",
                "cache",
                "doctor",
                "estimate",
                "expect",
                "manifest",
                "rightsize",
                "schedule",
                "sizing",
                "training",
            ),
            *("usage", "whatif"),
            *("serve/admission", "serve/extender", "serve/operator", "serve/scheduler"),
        ),
    ),
    "scheduler": Recipe(
        "fairlead-scheduler",
        "Places pods on nodes, down to the accelerator.",
        "scheduler",
        (
            *(*_TOOLS, *_OF_NODES, *_OF_STORES, *_OF_WORKERS, *_OF_DASHBOARDS),
            *("serve/operator", "whatif/pipeline"),
        ),
        # Otherwise numpy starts a thread per core of the node, for matrices that need only one.
        ("OPENBLAS_NUM_THREADS=1",),
    ),
    "operator": Recipe(
        "fairlead-operator",
        "Makes the objects that pipelines and augmentations ask for.",
        "operator",
        (*_WORKSTATION, *_OF_NODES, *_OF_DECISIONS, *_OF_STORES, *_OF_WORKERS, *_OF_DASHBOARDS),
        ("OPENBLAS_NUM_THREADS=1",),
    ),
    "pipeline": Recipe(
        "fairlead-pipeline",
        "Runs the stages of pipelines.",
        "pipeline",
        (
            *(
                *_WORKSTATION,
                *_OF_NODES,
                *_OF_DECISIONS,
                *_OF_STORES,
                *_OF_DASHBOARDS,
                "augmentobjects",
                "authority.py",
                "cluster",
                "ownedobjects",
                "pipelineobjects",
            ),
            *("pipeline/hosts/certificates.py", "serve/follow.py", "serve/leader", "serve/machine"),
            "serve/operator",
            *(f"serve/web/{name}.py" for name in ("connections", "request_bodies", "router")),
        ),
        keeps_memory=True,
        standard=("sqlite3", "_sqlite3"),
    ),
    "store": Recipe(
        "fairlead-store",
        "Serves the files of a device.",
        "store",
        (
            *(
                *_WORKSTATION,
                *_OF_NODES,
                *_OF_DECISIONS,
                *_OF_DASHBOARDS,
                "augment",
                "augmentobjects",
                "authority.py",
                "cluster",
            ),
            *(
                "ownedobjects",
                "pipeline",
                "pipelineobjects",
                "serve/follow.py",
                "serve/leader",
                "serve/machine",
            ),
            "serve/operator",
            *(f"serve/web/{name}.py" for name in ("connections", "request_bodies", "router")),
        ),
        standard=("xml", "pyexpat", "_elementtree", "sqlite3", "_sqlite3"),
        pure=("wsgidav",),
    ),
    "dashboard": Recipe(
        "fairlead-dashboard",
        "Serves the page of a cluster to its users.",
        "dashboard",
        (
            *(*_WORKSTATION, *_OF_NODES, *_OF_STORES, *_OF_WORKERS),
            *("augmentobjects", "authority.py", "doctor", "publish", "ownedobjects/issuer.py"),
            *("pipeline/hosts/certificates.py", "serve/admission", "serve/extender", "serve/leader"),
            *("serve/machine", "serve/operator", "serve/scheduler"),
            *(f"serve/web/{name}.py" for name in ("connections", "request_bodies", "router")),
        ),
        ("OPENBLAS_NUM_THREADS=1",),
        standard=("multiprocessing", "_multiprocessing"),  # uvicorn's command imports them
    ),
}
