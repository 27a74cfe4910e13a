"""The processor: architecture, name, cores and clock from /proc/cpuinfo."""

import pytest

from fairlead.catalog import Catalog
from fairlead.detect import cpu, detect
from tests.worlds import ARM64, X86, Entry, World

THREAD = (
    "processor\t: {n}\nphysical id\t: 0\ncore id\t\t: {core}\ncpu MHz\t\t: 3000.0\nflags\t\t: lm avx2 fma\n\n"
)


def clocks(*kilohertz: int) -> dict[str, Entry]:
    """Return the maximum clock of each core."""
    return {
        f"/sys/devices/system/cpu/cpu{n}/cpufreq/cpuinfo_max_freq": f"{clock}\n"
        for n, clock in enumerate(kilohertz)
    }


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        (X86, "x86_64"),
        ("flags : fpu vme\n", "i686"),
        (ARM64, "aarch64"),
        ("CPU implementer : 0x41\nFeatures : neon\n", "armv7l"),
        ("CPU implementer : 0x41\nCPU architecture: 6\n", "armv6l"),
        ("processor : 0\nisa : rv64imafdcv_zicsr\n", "riscv64"),
        ("processor : 0\nisa : rv32imac\n", "riscv32"),
        ("system type : x\nCPU Family : Loongson-64bit (LoongArch)\n", "loongarch64"),
        ("processor : 0\ncpu : POWER9, altivec supported\n", "ppc64le"),
        ("vendor_id : IBM/S390\n", "s390x"),
        ("processor : 0\n", None),
    ],
)
def test_the_architecture(world: World, text: str, arch: str | None) -> None:
    processor = cpu.read(world({"/proc/cpuinfo": text}))
    assert processor is not None
    assert processor.arch == arch


@pytest.mark.parametrize(
    ("text", "name", "vendor"),
    [
        (X86, "Test CPU", "Intel"),
        (ARM64, "Cortex-A57", "Arm"),
        (ARM64 + ARM64.replace("0x41", "0x4e").replace("0xd07", "0x003"), "Cortex-A57 + Denver 2", "Arm"),
        ("processor: 0\nCPU implementer: 0x99\nCPU part: 0xabc\n", "0x99 part 0xabc", "unknown"),
        ("processor: 0\nvendor_id: AuthenticAMD\nmodel name: EPYC\x1b[31m\n", "EPYC\ufffd[31m", "AMD"),
        ("processor: 0\nvendor_id: Weird\n", "", "Weird"),
    ],
)
def test_the_name(world: World, text: str, name: str, vendor: str) -> None:
    processor = cpu.read(world({"/proc/cpuinfo": text}))
    assert processor is not None
    assert (processor.name, processor.vendor) == (name, vendor)


@pytest.mark.parametrize(
    ("files", "threads", "cores", "gigahertz"),
    [
        ({"/proc/cpuinfo": "".join(THREAD.format(n=n, core=n // 2) for n in range(8))}, 8, 4, 12.0),
        ({"/proc/cpuinfo": ARM64 * 4}, 4, 4, None),
        ({"/proc/cpuinfo": ARM64 * 4, **clocks(1_000_000, 1_000_000, 2_000_000, 2_000_000)}, 4, 4, 6.0),
        ({"/proc/cpuinfo": X86, **clocks(4_000_000)}, 1, 1, 4.0),  # the maximum clock, not the present one
        ({"/proc/cpuinfo": X86, **clocks(-5)}, 1, 1, 2.0),
        ({"/proc/cpuinfo": X86.replace("2000.000", "fast")}, 1, 1, None),
    ],
)
def test_cores_and_clocks(
    world: World, files: dict[str, Entry], threads: int, cores: int, gigahertz: float | None
) -> None:
    processor = cpu.read(world(files))
    assert processor is not None
    assert (processor.threads, processor.cores) == (threads, cores)
    assert processor.core_hertz == (None if gigahertz is None else pytest.approx(gigahertz * 1e9))


@pytest.mark.parametrize(
    ("text", "kib"),
    [
        ("MemTotal:       16303428 kB\n", 16303428),
        ("junk\nMemTotal:  1 kB\n", 1),
        ("MemTotal: 1 MB\n", None),
        ("MemTotal: -1 kB\n", None),
        ("MemTotal: 99999999999999999999 kB\n", None),
        ("", None),
    ],
)
def test_the_memory(world: World, text: str, kib: int | None) -> None:
    assert cpu.memory(world({"/proc/meminfo": text})) == (None if kib is None else kib * 1024)


@pytest.mark.parametrize("text", ["", "\n\n", "no colon", "\0" * 100, b"\xff" * 100])
def test_an_invalid_cpuinfo_gives_no_processor(world: World, small: Catalog, text: str | bytes) -> None:
    host = world({"/proc/cpuinfo": text})
    assert cpu.read(host) is None
    assert detect(host, small).accelerators == ()


def test_the_processor_is_an_accelerator_of_the_catalog(world: World, small: Catalog) -> None:
    (acc,) = detect(world({"/proc/cpuinfo": X86}), small).accelerators
    assert (acc.id, acc.model, acc.name, acc.vendor) == ("cpu-0", "cpu-avx2", "Test CPU", "Intel")
    assert dict(acc.peak) == dict(acc.effective) == {"fp32": 32 * 2e9}
    assert acc.unified_memory
