"""Witness: /proc/cpuinfo, for the processor that every machine has."""

import re
from dataclasses import dataclass
from typing import Final

from fairlead.host import Host, printable
from fairlead.units import Bytes, Hertz

CPUINFO: Final = "/proc/cpuinfo"
MEMINFO: Final = "/proc/meminfo"
_CPUS: Final = "/sys/devices/system/cpu"
_INFO_LIMIT: Final = 512 * 1024
_FASTEST: Final = 10**9
"""In kHz; a larger value is not a clock."""
_MEGAHERTZ: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_IMPLEMENTERS: Final = {
    0x41: "Arm",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "Ampere",
    0x51: "Qualcomm",
    0x53: "Samsung",
    0x56: "Marvell",
    0x61: "Apple",
    0xC0: "Ampere",
}
_PARTS: Final = {
    (0x41, 0xB76): "ARM1176", (0x41, 0xC07): "Cortex-A7", (0x41, 0xC08): "Cortex-A8",
    (0x41, 0xC09): "Cortex-A9", (0x41, 0xC0F): "Cortex-A15", (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD04): "Cortex-A35", (0x41, 0xD05): "Cortex-A55", (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72", (0x41, 0xD09): "Cortex-A73", (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76", (0x41, 0xD0C): "Neoverse-N1", (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD0E): "Cortex-A76AE", (0x41, 0xD40): "Neoverse-V1", (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD42): "Cortex-A78AE", (0x41, 0xD44): "Cortex-X1", (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710", (0x41, 0xD48): "Cortex-X2", (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4B): "Cortex-A78C", (0x41, 0xD4D): "Cortex-A715", (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD4F): "Neoverse-V2", (0x41, 0xD80): "Cortex-A520", (0x41, 0xD81): "Cortex-A720",
    (0x41, 0xD82): "Cortex-X4", (0x41, 0xD83): "Neoverse-V3AE", (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD85): "Cortex-X925", (0x41, 0xD87): "Cortex-A725", (0x41, 0xD8E): "Neoverse-N3",
    (0x4E, 0x003): "Denver 2", (0x4E, 0x004): "Carmel",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Processor:
    """The machine's processor as the kernel describes it."""

    arch: str | None
    name: str
    vendor: str
    flags: frozenset[str]
    threads: int
    cores: int
    signature: str
    """Vendor, family and model as an x86 kernel prints them: `GenuineIntel 6/170`; empty elsewhere."""
    core_hertz: Hertz | None
    """The sum of the maximum clocks of all cores: the factor for a peak rate per core and cycle."""


def read(host: Host) -> Processor | None:
    """Return the processor; None if /proc/cpuinfo cannot be read."""
    data = host.read(CPUINFO, _INFO_LIMIT)
    blocks = _blocks(data.decode("utf-8", "replace")) if data else []
    if not blocks:
        return None
    first = {key: value for block in reversed(blocks) for key, value in block.items()}
    processors = [block for block in blocks if "processor" in block] or blocks
    names = list(dict.fromkeys(name for block in processors if (name := _core_name(block))))
    cores = _cores(processors)
    return Processor(
        arch=_arch(first),
        name=printable(" + ".join(names[:3]))[:80],
        vendor=_vendor(first),
        flags=_flags(first),
        threads=len(processors),
        cores=cores,
        signature=_signature(first),
        core_hertz=_core_hertz(host, processors, cores),
    )


def memory(host: Host) -> Bytes | None:
    """Return the machine's RAM as the kernel counts it."""
    data = host.read(MEMINFO, 4096)
    match = re.search(rb"^MemTotal:\s+([0-9]{1,15}) kB", data or b"", re.MULTILINE)
    return None if match is None else Bytes(int(match[1]) * 1024)


def _blocks(text: str) -> list[dict[str, str]]:
    blocks = []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        pairs = (line.partition(":") for line in paragraph.splitlines())
        block = {key.strip(): value.strip() for key, colon, value in pairs if colon}
        if block:
            blocks.append(block)
    return blocks


def _arch(fields: dict[str, str]) -> str | None:
    if "flags" in fields:
        return "x86_64" if " lm " in f" {fields['flags']} " else "i686"
    if "CPU implementer" in fields:
        wide = "asimd" in fields.get("Features", "").split()
        return "aarch64" if wide else "armv6l" if fields.get("CPU architecture") == "6" else "armv7l"
    if "isa" in fields:
        return "riscv64" if fields["isa"].startswith("rv64") else "riscv32"
    if "LoongArch" in fields.get("CPU Family", "") or "loongarch" in fields.get("ISA", "").lower():
        return "loongarch64"
    if fields.get("cpu", "").startswith("POWER"):
        return "ppc64le"
    return "s390x" if "vendor_id" in fields and "IBM/S390" in fields["vendor_id"] else None


def _flags(fields: dict[str, str]) -> frozenset[str]:
    words: list[str] = []
    for key in ("flags", "Features", "features"):
        words += fields.get(key, "").split()
    base, *extensions = fields.get("isa", "").lower().split("_")
    words += [*base.removeprefix("rv64").removeprefix("rv32"), *extensions]
    words += fields.get("cpu", "").split(maxsplit=1)[:1]
    return frozenset(word for word in words if word)


def _core_name(block: dict[str, str]) -> str:
    implementer, part = _number(block.get("CPU implementer")), _number(block.get("CPU part"))
    if implementer is not None and part is not None:
        known = _PARTS.get((implementer, part))
        return known or f"{_IMPLEMENTERS.get(implementer, f'0x{implementer:02x}')} part 0x{part:03x}"
    return block.get("model name") or block.get("Model Name") or block.get("uarch") or block.get("cpu") or ""


def _vendor(fields: dict[str, str]) -> str:
    known = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "HygonGenuine": "Hygon", "CentaurHauls": "VIA"}
    implementer = _number(fields.get("CPU implementer"))
    if implementer is not None:
        return _IMPLEMENTERS.get(implementer, "unknown")
    vendor = fields.get("vendor_id", "")
    return printable(known.get(vendor, vendor))[:40] or "unknown"


def _signature(fields: dict[str, str]) -> str:
    vendor, family, model = (fields.get(key, "") for key in ("vendor_id", "cpu family", "model"))
    return printable(f"{vendor} {family}/{model}")[:80] if vendor and family and model else ""


def _cores(processors: list[dict[str, str]]) -> int:
    """Count cores, not threads; machines without the fields have one thread per core."""
    places = {(block.get("physical id"), block.get("core id")) for block in processors}
    return len(processors) if (None, None) in places else len(places)


def _core_hertz(host: Host, processors: list[dict[str, str]], cores: int) -> Hertz | None:
    """Sum the maximum clocks of the cores, which differ on big.LITTLE machines."""
    kilohertz = [
        host.number(f"{_CPUS}/{name}/cpufreq/cpuinfo_max_freq")
        for name in host.names(_CPUS)
        if re.fullmatch(r"cpu[0-9]+", name)
    ]
    clocks = [float(clock) * 1e3 for clock in kilohertz if clock and 0 < clock < _FASTEST]
    if not clocks:
        megahertz = (block.get("cpu MHz", "") for block in processors)
        clocks = [float(clock) * 1e6 for clock in megahertz if _MEGAHERTZ.fullmatch(clock)]
    return Hertz(sum(clocks) / len(clocks) * cores) if clocks else None


def _number(text: str | None) -> int | None:
    try:
        return int(text, 0) if text else None
    except ValueError:
        return None
