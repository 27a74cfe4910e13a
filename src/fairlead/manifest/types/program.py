"""A pod with the programs that it runs: commands, variables, mounts and the volumes behind them."""

from fairlead.cluster import objects
from fairlead.cluster.meta import ObjectPart, field
from fairlead.manifest.types import kubernetes


class VolumeMount(ObjectPart, frozen=True):
    """Where a container sees a volume."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class ProgramContainer(kubernetes.Container, frozen=True):
    """A container with its command."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[objects.EnvVar, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class KeyToPath(ObjectPart, frozen=True):
    """A key of a ConfigMap, and its path in the volume."""

    key: str = ""
    path: str = ""


class ConfigMapSource(ObjectPart, frozen=True):
    """The ConfigMap behind a volume; without items, every key is a file."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()


class HostPathSource(ObjectPart, frozen=True):
    """A path of the node."""

    path: str = ""


class ProjectedSource(ObjectPart, frozen=True):
    """One source of a projected volume."""

    config_map: ConfigMapSource | None = None


class ProjectedVolume(ObjectPart, frozen=True):
    """A volume that shows several sources together."""

    sources: tuple[ProjectedSource, ...] = ()


class ProgramVolume(kubernetes.PodVolume, frozen=True):
    """A volume with the source of its content."""

    host_path: HostPathSource | None = None
    config_map: ConfigMapSource | None = None
    projected: ProjectedVolume | None = None

    @property
    def config_maps(self) -> tuple[ConfigMapSource, ...]:
        """The ConfigMaps that it shows."""
        projected = self.projected.sources if self.projected else ()
        listed = (self.config_map, *(source.config_map for source in projected))
        return tuple(source for source in listed if source is not None)


class ProgramPodSpec(kubernetes.PodSpec, frozen=True):
    """The spec of a pod with its programs."""

    containers: tuple[ProgramContainer, ...] = ()
    init_containers: tuple[ProgramContainer, ...] = ()
    volumes: tuple[ProgramVolume, ...] = ()


class ProgramPod(kubernetes.Pod, frozen=True):
    """A pod with its programs."""

    spec: ProgramPodSpec = field(default_factory=ProgramPodSpec)
