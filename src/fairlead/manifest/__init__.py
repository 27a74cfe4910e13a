"""Files of Kubernetes, and shorter ones, as nouns: nodes, what runs on them, and what waits for a place."""

from fairlead.manifest.clusterfile import of_objects as of_objects
from fairlead.manifest.clusterfile import read_cluster as read_cluster
from fairlead.manifest.snapshot import Snapshot as Snapshot
from fairlead.manifest.workloadfile import read_workloads as read_workloads
