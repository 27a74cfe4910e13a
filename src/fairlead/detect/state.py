"""The state of a device: present, driver-bound, usable or healthy, and why it is not a better one."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from os.path import basename, dirname
from typing import Final

from fairlead.catalog.device import Driver
from fairlead.detect.sighting import Sighting
from fairlead.host import Host
from fairlead.inventory import Evidence, State

_HOT_DEFAULT: Final = 100_000
"""Millidegrees from which a chip without a trip point of its own counts as too hot."""
_NODE_CLASSES: Final = {"/dev/dri": "drm", "/dev/accel": "accel"}
"""Folders of device nodes that several drivers share, with the class that names a node's driver."""
_RUNNING: Final = ("active", "suspended", "resuming", "suspending")
"""The runtime power states of a working device; "unsupported" gives no information."""
_CLASS_LIMIT: Final = 512
"""Entries of a class that are compared with a device; hostile roots have more."""
_TAKEN: Final = {
    "vfio-pci": "handed to a virtual machine (vfio-pci)",
    "pciback": "handed to a virtual machine (xen-pciback)",
    "xen-pciback": "handed to a virtual machine (xen-pciback)",
}


@dataclass(frozen=True, slots=True)
class StateAssessment:
    """The state of a device, and the evidence for it."""

    state: State
    reason: str
    driver: str | None
    node: str | None = None
    evidence: tuple[Evidence, ...] = ()


def assess_state(host: Host, sighting: Sighting) -> StateAssessment:
    """Return the best state that the evidence supports."""
    name = sighting.device.name if sighting.device else " or ".join(row.name for row in sighting.devices)
    drivers = tuple(dict.fromkeys(driver for device in sighting.devices for driver in device.drivers))
    bound = sighting.driver
    off = _disabled_reason(host, sighting, name)
    if off:
        return StateAssessment(State.PRESENT, off, bound)
    driver = _matching_driver(drivers, bound)
    if driver is None:
        return StateAssessment(State.PRESENT, _missing_driver_reason(name, drivers, bound, sighting), bound)
    node, evidence = _node(host, sighting, driver)
    shown = bound or ("libusb" if sighting.bus == "usb" else driver.name or None)
    if node is None:
        wanted = " or ".join(driver.nodes) or sighting.usb_node or f"/sys/class/{driver.sysfs_class}"
        ready = f"{name} needs no kernel driver" if driver.userspace else f"{shown} is bound"
        return StateAssessment(State.DRIVER_BOUND, f"{ready}, but there is no {wanted}", shown)
    if sighting.gpu is not None and sighting.gpu.fault:
        return StateAssessment(State.DRIVER_BOUND, sighting.gpu.fault, shown, node, evidence)
    return _health(host, sighting, StateAssessment(State.USABLE, "", shown, node, evidence))


def _disabled_reason(host: Host, sighting: Sighting, name: str) -> str:
    if sighting.nodes and not any(node.enabled for node in sighting.nodes):
        return f"{name} is disabled in the device tree ({basename(sighting.nodes[0].path)})"
    if sighting.bus == "usb" and host.text(f"{sighting.path}/authorized") == "0":
        return f"{name} is not authorised on its USB port"
    return ""


def _matching_driver(drivers: tuple[Driver, ...], bound: str | None) -> Driver | None:
    """Return the catalog's driver that serves the device; dashes in names are ignored."""
    plain = (bound or "").replace("-", "_")
    for driver in drivers:
        if driver.userspace or (plain and driver.name.replace("-", "_") == plain):
            return driver
    return None


def _missing_driver_reason(
    name: str, drivers: tuple[Driver, ...], bound: str | None, sighting: Sighting
) -> str:
    wanted = " or ".join(dict.fromkeys(driver.name for driver in drivers if driver.name)) or "a"
    hint = next((f": {driver.hint}" for driver in drivers if driver.hint), "")
    if bound in _TAKEN:
        return f"{name} is {_TAKEN[bound]}"
    if bound:
        return f"{name} is bound to {bound}, needs {wanted}{hint}"
    if sighting.bus == "platform" and not sighting.nodes:
        return f"{name} present, but the device tree does not describe it; needs the {wanted} driver{hint}"
    return f"{name} present, {wanted} driver not loaded{hint}"


def _node(host: Host, sighting: Sighting, driver: Driver) -> tuple[str | None, tuple[Evidence, ...]]:
    """Return the device node, by class entry if the driver has a class, else by name."""
    if sighting.usb_node:
        return _visible(host, sighting.usb_node)
    if sighting.minor is not None:
        return _visible(host, f"/dev/nvidia{sighting.minor}")
    if sighting.gpu is not None:
        numbered = f"/dev/nvidia{sighting.gpu.index}"
        says = Evidence("nvml", f"GPU {sighting.gpu.index}", "answers")
        return (numbered if host.exists(numbered) else "NVML"), (says,)
    entry = _class_entry(host, sighting, driver)
    if entry:
        path, name = entry
        node = next((f"{dirname(g)}/{name}" for g in driver.nodes if fnmatchcase(name, basename(g))), None)
        says = Evidence("class", path, f"{driver.sysfs_class} entry {name}")
        if node is None:
            return path, (says,)
        shown, more = _visible(host, node)
        return shown, (says, *more)
    return _by_name(host, driver)


def _visible(host: Host, node: str) -> tuple[str | None, tuple[Evidence, ...]]:
    """Check that a node exists in /dev; without a visible /dev the kernel's entry is enough."""
    if not host.exists("/dev"):
        return node, ()
    return (node, (Evidence("node", node, "device node"),)) if host.exists(node) else (None, ())


def _class_entry(host: Host, sighting: Sighting, driver: Driver) -> tuple[str, str] | None:
    """Return the class entry of this device: below its own folder, or linked to it."""
    kind = driver.sysfs_class
    if kind is None:
        return None
    globs = [basename(glob) for glob in driver.nodes] or ["*"]
    below = f"{sighting.path}/{kind}" if sighting.path else ""
    for name in host.names(below) if below else []:
        if any(fnmatchcase(name, glob) for glob in globs):
            return f"{below}/{name}", name
    own = host.resolve(sighting.path) if sighting.path else None
    for name in host.names(f"/sys/class/{kind}")[:_CLASS_LIMIT]:
        path = f"/sys/class/{kind}/{name}"
        if own and host.resolve(f"{path}/device") == own and any(fnmatchcase(name, g) for g in globs):
            return path, name
    return None


def _by_name(host: Host, driver: Driver) -> tuple[str | None, tuple[Evidence, ...]]:
    """Return the node that matches a driver's names; of several that differ in number, none is chosen."""
    for glob in driver.nodes:
        folder, pattern = dirname(glob), basename(glob)
        names = host.names(folder, pattern)
        if kind := _NODE_CLASSES.get(folder):
            names = [
                name for name in names[:_CLASS_LIMIT] if not _belongs_to_another(host, driver, kind, name)
            ]
        if len({name.rstrip("0123456789") for name in names}) < len(names):
            return f"one of {glob}", (Evidence("node", folder, f"one of {', '.join(names[:8])}"),)
        if names:
            return f"{folder}/{names[0]}", (Evidence("node", f"{folder}/{names[0]}", "device node"),)
    return (None, ()) if driver.nodes or driver.sysfs_class else (f"driver {driver.name}", ())


def _belongs_to_another(host: Host, driver: Driver, kind: str, node: str) -> bool:
    """Return whether a node belongs to another driver: the render node of a GPU beside the NPU's."""
    holder = host.link(f"/sys/class/{kind}/{node}/device/driver")
    return holder is not None and not (driver.name.startswith(holder) or holder.startswith(driver.name))


def _health(host: Host, sighting: Sighting, assessment: StateAssessment) -> StateAssessment:
    """Check the vital signs: a bad one keeps the device at usable, and so does the lack of any."""
    signs = [sign for sign in (_answers(sighting), _power(host, sighting), *_sensors(host, sighting)) if sign]
    bad = [sign for sign in signs if sign.startswith("!")]
    if bad:
        return StateAssessment(
            State.USABLE, bad[0][1:], assessment.driver, assessment.node, assessment.evidence
        )
    if not signs:
        reason = "no vital sign can be read: its health is unknown"
        return StateAssessment(State.USABLE, reason, assessment.driver, assessment.node, assessment.evidence)
    return StateAssessment(State.HEALTHY, "", assessment.driver, assessment.node, assessment.evidence)


def _answers(sighting: Sighting) -> str:
    return "NVML" if sighting.gpu is not None else ""


def _power(host: Host, sighting: Sighting) -> str:
    status = host.text(f"{sighting.path}/power/runtime_status") if sighting.path else None
    if status == "error":
        return "!the kernel reports a power management error"
    if sighting.bus == "usb":
        return "authorised" if host.text(f"{sighting.path}/authorized") == "1" else ""
    return status if status in _RUNNING else ""


def _sensors(host: Host, sighting: Sighting) -> list[str]:
    """Read the driver's values of the chip itself: apex status and temperature, devfreq clock."""
    signs = []
    for name in host.names(f"{sighting.path}/apex") if sighting.path else []:
        base = f"{sighting.path}/apex/{name}"
        status, heat = host.text(f"{base}/status"), host.number(f"{base}/temp")
        trip = host.number(f"{base}/trip_point2_temp") or _HOT_DEFAULT
        if status is not None:
            signs.append("alive" if status.upper() == "ALIVE" else f"!the driver says {status}")
        if heat is not None:
            signs.append(f"!too hot: {heat / 1000:.0f} C" if heat >= trip else "temperature")
    for name in host.names(f"{sighting.path}/devfreq") if sighting.path else []:
        if host.number(f"{sighting.path}/devfreq/{name}/cur_freq") is not None:
            signs.append("clock")
    return signs
