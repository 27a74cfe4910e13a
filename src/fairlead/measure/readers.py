"""The table of readers: which accelerators each of them can read.

A Coral on USB, a Movidius stick and an AMD XDNA show nothing unless the device is opened: for them the
inventory's state is the only information.
"""

from collections.abc import Callable
from typing import Final

from fairlead.inventory import Accelerator
from fairlead.measure import amd, coral, cpu, hailo, intel, jetson, nvidia, pcie, soc
from fairlead.measure.sysfs import hwmon
from fairlead.measure.view import Read

Applies = Callable[[Accelerator], bool]


def on(bus: str) -> Applies:
    """Apply to the accelerators on a bus."""
    return lambda acc: acc.bus.startswith(f"{bus}:")


def driven_by(*drivers: str) -> Applies:
    """Apply to the accelerators bound to one of these drivers; dashes in names are ignored."""
    return lambda acc: (acc.driver or "").replace("-", "_") in drivers


def is_tegra(acc: Accelerator) -> bool:
    """Apply to NVIDIA GPUs that share the host's RAM."""
    return acc.kind == "gpu" and acc.vendor == "NVIDIA" and acc.unified_memory


def is_soc(acc: Accelerator) -> bool:
    """Apply to the other engines of a SoC."""
    return acc.bus.startswith("platform:") and not is_tegra(acc)


def is_driven_pci(acc: Accelerator) -> bool:
    """Apply to PCI devices with a driver, which may show a monitoring chip in the common form."""
    return acc.driver is not None and acc.bus.startswith("pci:")


READERS: Final[tuple[tuple[Applies, Read], ...]] = (
    (on("cpu"), cpu.read),
    (on("pci"), pcie.read),
    (is_tegra, jetson.read),
    (lambda acc: acc.vendor == "NVIDIA", nvidia.read),
    (driven_by("amdgpu"), amd.read),
    (driven_by("apex"), coral.read),
    (driven_by("hailo", "hailo_pci"), hailo.read),
    (driven_by("intel_vpu"), intel.read),
    (driven_by("RKNPU", "rknpu"), soc.read_rockchip),
    (is_soc, soc.read),
    (is_driven_pci, hwmon),
)
"""If two readers measure the same metric, the earlier one wins."""


def readers_of(acc: Accelerator) -> list[Read]:
    """Return the readers that apply to an accelerator; the files of a GPU say nothing of a MIG instance."""
    if acc.mig:
        return [nvidia.read]
    return [read for applies, read in READERS if applies(acc)]
