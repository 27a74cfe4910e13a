"""Hypothesis strategies for the generated tests."""

import io
import tarfile
from dataclasses import replace
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fairlead.inventory import Accelerator, Evidence, Inventory, Machine, MigPartition, State, Unknown
from fairlead.job import MOST_PRIORITY, Assumed, JobKind, JobUse, LocalJob, LocalState, ProcessRef, Requested
from fairlead.need import Need, NeedSource
from fairlead.nvml import Gpu, MigInstance
from fairlead.offer import Form, Holder, Holding, ranges
from fairlead.placement import DeviceState, NodeState
from fairlead.request import (
    Demand,
    Expectation,
    HostPort,
    PodAffinityTerm,
    Request,
    Selector,
    Taint,
    TaintEffect,
    Toleration,
    TopologySpread,
)
from fairlead.share import DeviceShare
from fairlead.units import Bytes, Ops, Seconds, Watts
from tests.worlds import PCI, PLATFORM, TREE, USB, Entry, Files, Link, Sparse, Special, crowded

NASTY: Final = (
    b"",
    b"\0",
    b"\n",
    b"\xff\xfe\x00\x01" * 300,
    b"\x80" * 5000,
    b"-1",
    b"0",
    b"0x",
    b"0x" + b"f" * 70_000,
    b"9" * 70_000,
    b"9" * 400 + b".0 GT/s",
    b"1e999",
    b"nan",
    b"inf",
    "٣٤".encode(),
    b"\xf0\x9f\x92\xa3\xe2\x80\xae\n\r\t\x1b[31m",
    b":" * 9000,
    b"a:\n\n" * 20_000,
    b"\n \t" * 20_000,
    b"[" * 60_000,
    b"< POWER_MODEL ID=" + b"2" * 6000 + b" NAME=" + b"9" * 400 + b"W >\n",
    b"< POWER_MODEL ID=2 NAME=" + b"9" * 400 + b"W >\nGPU MAX_FREQ 1234567890123\n",
    b"cpu MHz\t: " + b"9" * 400 + b"\nflags\t: lm\nprocessor\t: 0\n",
    b"CPU implementer: 0x" + b"f" * 300_000 + b"\nCPU part: 1\nprocessor: 0\n",
    b"isa: rv64" + b"q" * 300_000,
    b"nvidia,p3448-0000\0" * 300,
    b"nvidia,tegra210\0rockchip,rk3588\0fsl,imx8mp\0qcom,qcs6490\0",
)
"""Contents of malicious or corrupted files."""

LISTED: Final = (
    PCI,
    USB,
    PLATFORM,
    TREE,
    f"{TREE}/bus@0",
    "/dev",
    "/dev/dri",
    "/sys/class/apex",
    "/sys/class/hailo_chardev",
    "/sys/devices/system/cpu",
    "/sys/devices/pci0000:00/0000:01:00.0/apex",
    "/sys/devices/platform/17000000.gpu/devfreq",
)
"""Folders that discovery lists."""


def junk() -> SearchStrategy[bytes]:
    """Contents of a file."""
    return st.sampled_from(NASTY) | st.binary(max_size=200)


def names() -> SearchStrategy[str]:
    """Return names that a file system accepts, and some that hardware has; odd bytes are escaped."""
    raw = st.binary(min_size=1, max_size=255).map(lambda b: b.replace(b"/", b"-").replace(b"\0", b"-"))
    strange = raw.map(lambda b: b.decode("utf-8", "surrogateescape"))
    known = st.sampled_from(
        ["0000:09:00.0", "0000:01:00.0-2", "A", "a", "1-1:1.0", "cpu7", "npu@0", "x" * 255]
    )
    lines = st.sampled_from(["a\nb", "\x1b[2J", "\udcff", "é" * 100, " ", "...", "\u2028"])
    return (strange | known | lines).filter(lambda name: name not in (".", ".."))


def links() -> SearchStrategy[Link]:
    """Links to anywhere: loops, dangling ones, out of the root, and to existing files."""
    inside = st.sampled_from([*crowded(), *LISTED, "/", "/dev", "/sys"])
    outside = st.sampled_from(
        ["..", "../" * 30 + "etc/passwd", "/etc/passwd", "/proc/self/environ", "/dev/zero", "."]
    )
    many = st.just("x/" * 1000)
    return (inside | outside | many).map(Link)


def entries() -> SearchStrategy[Entry]:
    """Anything that may be in the place of a file."""
    return st.one_of(junk(), links(), st.sampled_from(Special), st.just(Sparse(2**30)))


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(2, len(parts))]


def _places() -> list[str]:
    found = set()
    for path in crowded():
        found |= {path, *_above(path)}
    return sorted(found)


PLACES: Final = _places()
"""Every file and folder of a crowded machine."""


def replaced(files: Files, path: str, entry: Entry | None) -> dict[str, Entry]:
    """Return a world with `entry` at `path`, and nothing below it; None removes it."""
    kept = {place: old for place, old in files.items() if not f"{place}/".startswith(f"{path}/")}
    return kept if entry is None else {**kept, path: entry}


@st.composite
def hostile_worlds(draw: st.DrawFn) -> dict[str, Entry]:
    """Return a crowded machine with some files, folders and links replaced."""
    world = crowded()
    for path in draw(st.lists(st.sampled_from(PLACES), max_size=6, unique=True)):
        world = replaced(world, path, draw(st.none() | entries()))
    for folder in draw(st.lists(st.sampled_from(LISTED), max_size=4)):
        place = f"{folder}/{draw(names())}"
        if draw(st.booleans()):
            world = replaced(world, place, draw(entries()))
        else:
            ids = draw(st.sampled_from(["1ac1:089a", "10de:2335", "1e60:2864", "18d1:9302"]))
            for name, value in zip(("vendor", "device"), ids.split(":"), strict=True):
                world = replaced(world, f"{place}/{name}", value)
                world = replaced(world, f"{place}/id{name.capitalize().replace('Device', 'Product')}", value)
    return _without_conflicts(world)


def _without_conflicts(world: Files) -> dict[str, Entry]:
    """Drop entries below an entry that is not a folder."""
    return {
        path: entry
        for path, entry in world.items()
        if not any(above in world and world[above] is not Special.FOLDER for above in _above(path))
    }


def gpus() -> SearchStrategy[Gpu]:
    """Answers of NVML."""
    return st.builds(
        Gpu,
        index=st.integers(0, 9),
        address=st.sampled_from(["", "0000:03:00.0", "0000:0a:00.0"]),
        name=st.sampled_from(["NVIDIA H200", "NVIDIA X", "NVIDIA Y", "Quantum Nine"]) | st.text(max_size=80),
        uuid=st.just("") | st.uuids().map(lambda uuid: f"GPU-{uuid}"),
        memory=st.none() | st.integers(1, 2**40).map(Bytes),
        power_limit=st.none() | st.floats(1, 1000).map(Watts),
        driver_version=st.sampled_from(["", "550.54.15"]),
        ecc_errors=st.none() | st.integers(0, 3),
        mig_enabled=st.booleans(),
        instances=st.just(()) | st.lists(mig_instances(), max_size=3).map(tuple),
        multiprocessors=st.none() | st.integers(0, 200),
        most_instances=st.none() | st.integers(0, 9),
    )


def mig_instances() -> SearchStrategy[MigInstance]:
    """MIG instances as NVML, or a captured file, describes them."""
    return st.builds(
        MigInstance,
        index=st.integers(0, 2**20),
        uuid=st.just("") | st.uuids().map(lambda uuid: f"MIG-{uuid}"),
        name=st.sampled_from(["NVIDIA H200 MIG 1g.18gb", "NVIDIA X MIG 1c.3g.71gb+me"])
        | st.text(max_size=80),
        gpu_instance=st.integers(0, 14) | st.integers(),
        compute_instance=st.integers(0, 7) | st.integers(),
        memory=st.none() | st.integers(1, 2**40).map(Bytes),
        multiprocessors=st.none() | st.integers(0, 200),
        slices=st.none() | st.integers(0, 8),
    )


RATES: Final = [
    f"{precision}{more}"
    for precision in ("int4", "int8", "fp4", "fp8", "fp16", "bf16", "tf32", "fp32", "fp64")
    for more in ("", "-sparse")
]


def _texts() -> SearchStrategy[str]:
    return st.text(max_size=90) | st.sampled_from(["", "-", "x" * 200, "a b", "._-", "é", "-a-", "1" * 64])


def accelerators() -> SearchStrategy[Accelerator]:
    """Accelerators with any text in any place."""
    return st.builds(
        Accelerator,
        id=st.just("pci-0"),
        model=st.none() | st.sampled_from(["jetson-nano", "coral-usb", "t4"]),
        name=_texts(),
        vendor=_texts(),
        kind=st.sampled_from(["cpu", "gpu", "tpu", "npu"]),
        state=st.sampled_from(State),
        reason=_texts(),
        confidence=st.floats(0.05, 0.99),
        candidates=st.lists(st.sampled_from(["hailo-8", "hailo-8l", "x" * 100]), min_size=1).map(tuple),
        bus=st.sampled_from(["pci:0000:01:00.0", "usb:1-1", "platform:gpu", "cpu:0"]),
        memory=st.none() | st.integers(1, 2**70).map(Bytes),
        effective=st.dictionaries(st.sampled_from(RATES), st.floats(0, 1e18).map(Ops)),
        driver=st.none() | _texts(),
        driver_version=st.none() | _texts(),
        evidence=st.lists(st.builds(Evidence, st.just("usb"), _texts(), _texts()), max_size=2).map(tuple),
        mig=st.none() | st.builds(MigPartition, _texts(), st.just(9), st.just(0), st.just("pci-9"), _texts()),
        mig_instances=st.sampled_from([0, 0, 7]),
    )


def inventories() -> SearchStrategy[Inventory]:
    """Inventories with any text in any place."""
    machine = st.builds(
        Machine,
        arch=st.none() | _texts(),
        board=st.none() | _texts(),
        compatible=st.lists(_texts(), max_size=3).map(tuple),
        release=st.none() | _texts(),
    )
    unknown = st.builds(Unknown, _texts(), _texts(), st.none(), _texts())
    return st.builds(
        Inventory,
        machine=machine,
        accelerators=st.lists(accelerators(), max_size=4).map(tuple),
        unknown=st.lists(unknown, max_size=2).map(tuple),
    )


@st.composite
def nodes(draw: st.DrawFn) -> Inventory:
    """Return the accelerators of a valid node: each has its own id, and some can be shared."""
    found = draw(st.lists(accelerators(), max_size=4))
    shared = draw(st.lists(st.booleans(), min_size=4, max_size=4))
    bytes_ = [0, 2**20 - 1, 2**20, 2**21, 5 * 2**20, 3 * 2**30, 2**34, 2**70]
    sizes = st.none() | st.sampled_from(bytes_).map(Bytes)
    accs = [
        replace(acc, id=f"{acc.bus.partition(':')[0]}-{at}", shareable=shared[at], memory=draw(sizes))
        for at, acc in enumerate(found)
    ]
    return Inventory(Machine(), tuple(accs))


@st.composite
def held_nodes(draw: st.DrawFn) -> tuple[Inventory, tuple[Holding, ...]]:
    """Return a node and holders of parts of it, possible or not; some hold parts that no longer exist."""
    inventory = draw(nodes())
    names = st.sampled_from([*(acc.id for acc in inventory.accelerators), "gone-1"])
    holders = st.builds(Holder, _texts(), _texts(), st.sampled_from(["", "main"]))
    whole = st.builds(Holding, names, st.just(Form.WHOLE), holders)
    claim = st.builds(Holding, names, st.just(Form.CLAIM), holders, st.sampled_from([0, 1, 3, 2048]))
    memory = st.builds(
        lambda name, holder, numbers, unit: Holding(
            name, Form.MEMORY, holder, len(numbers) * unit, ranges(numbers)
        ),
        names,
        holders,
        st.sets(st.integers(0, 20), min_size=1, max_size=6),
        st.sampled_from([1, 1024]),
    )
    return inventory, tuple(draw(st.lists(whole | claim | memory, max_size=5)))


@st.composite
def tarballs(draw: st.DrawFn) -> bytes:
    """Return untrusted tarballs: any member under any name, valid, truncated or corrupted."""
    name = st.sampled_from(["a", "a/b", "../up", "/etc/evil", "a/../../b", ".", "", "x" * 300, "a//b", "é\n"])
    stream = io.BytesIO()
    form = draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT]))
    with tarfile.open(fileobj=stream, mode="w", format=form, errors="replace") as tar:
        for _ in range(draw(st.integers(0, 5))):
            info = tarfile.TarInfo(draw(name))
            info.type = draw(st.sampled_from([b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"S", b"g"]))
            info.linkname = draw(name | st.just("/"))
            data = draw(junk())
            info.size = len(data) if info.isfile() else 0
            try:
                tar.addfile(info, io.BytesIO(data))
            except ValueError:  # this format does not allow such a name
                continue
    tar_bytes = bytearray(stream.getvalue())
    for place, value in draw(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=8)):
        if place < len(tar_bytes):
            tar_bytes[place] = value
    return bytes(tar_bytes[: draw(st.integers(0, len(tar_bytes)) | st.just(len(tar_bytes)))])


ZONE: Final = "zone"
_APPS: Final = ("web", "db")


def devices(at: int) -> SearchStrategy[DeviceState]:
    """Return accelerators of a few models, some not shareable or not healthy."""
    return st.builds(
        DeviceState,
        st.just(f"gpu-{at}"),
        st.sampled_from(["t4", "jetson", "coral"]),
        st.just("nvidia"),
        st.sampled_from([Bytes(0), Bytes(4 << 30), Bytes(16 << 30)]),
        healthy=st.sampled_from([True, True, True, False]),
        unified=st.booleans(),
        shareable=st.sampled_from([True, True, False]),
    )


@st.composite
def node_states(draw: st.DrawFn, name: str = "") -> NodeState:
    """Return small nodes: with or without accelerators, labels, taints."""
    return NodeState(
        name or f"n{draw(st.integers(0, 5))}",
        draw(st.sampled_from([500, 2000, 8000])),
        Bytes(draw(st.sampled_from([1, 8, 64])) << 30),
        draw(st.sampled_from([2, 110])),
        {"x.io/y": draw(st.integers(0, 2))},
        {ZONE: draw(st.sampled_from("ab"))} if draw(st.booleans()) else {},
        (Taint("t", effect=draw(st.sampled_from(TaintEffect))),) if draw(st.booleans()) else (),
        draw(st.sampled_from([False, False, False, True])),
        tuple(draw(devices(at)) for at in range(draw(st.integers(0, 3)))),
    )


def demands() -> SearchStrategy[Demand]:
    """Return demands for nothing, whole accelerators, and shares by memory, compute, or both."""
    return st.builds(
        Demand,
        st.integers(1, 2),
        st.none() | st.sampled_from([Bytes(1 << 30), Bytes(3 << 30)]),
        st.none() | st.sampled_from([100, 500, 1000]),
        st.just(()) | st.just(("t4",)),
    ) | st.just(Demand())


def expectations() -> SearchStrategy[Expectation]:
    """Return estimates for an accelerator: partial, complete, or that the request does not run there."""
    return st.builds(
        Expectation,
        st.none() | st.sampled_from([0.001, 0.1]),
        st.none() | st.just(1.0),
        st.none() | st.sampled_from([Bytes(1 << 30), Bytes(5 << 30)]),
        st.sampled_from(["", "", "no such operator"]),
    )


@st.composite
def requests(draw: st.DrawFn, name: str = "", *, inter_pod: bool = True) -> Request:
    """Return requests of every sort, with and without inter-pod rules."""
    app = Selector.of({"app": draw(st.sampled_from(_APPS))})
    rule = PodAffinityTerm(
        app, draw(st.sampled_from([ZONE, "kubernetes.io/hostname"])), weight=draw(st.sampled_from([0, 5]))
    )
    return Request(
        name or f"r{draw(st.integers(0, 9))}",
        cpu=draw(st.sampled_from([0, 300, 1000])),
        memory=Bytes(draw(st.sampled_from([0, 1 << 20, 2 << 30]))),
        resources=draw(st.sampled_from([(), (("x.io/y", 1),)])),
        demand=draw(demands()),
        labels={"app": draw(st.sampled_from(_APPS))},
        priority=draw(st.integers(0, 3)),
        selector=draw(st.sampled_from([Selector(), Selector(), Selector.of({ZONE: "a"})])),
        tolerations=draw(st.sampled_from([(), (Toleration(exists=True),)])),
        pod_affinity=(rule,) if inter_pod and draw(st.integers(0, 5)) == 0 else (),
        pod_anti_affinity=(rule,) if inter_pod and draw(st.integers(0, 5)) == 0 else (),
        topology_spread=(TopologySpread(app, ZONE),) if inter_pod and draw(st.integers(0, 5)) == 0 else (),
        ports=(HostPort(80),) if inter_pod and draw(st.integers(0, 5)) == 0 else (),
        estimates=draw(st.just({}) | st.dictionaries(st.sampled_from(["t4", "coral"]), expectations())),
        slo=draw(st.sampled_from([None, None, None, 0.5])),
        need=draw(st.none() | needs()),
    )


@st.composite
def needs(draw: st.DrawFn) -> Need:
    """Return firm and soft needs of one to three sizes."""
    sizes = sorted(draw(st.sets(st.integers(1, 8), min_size=1, max_size=3)))
    weights = [draw(st.integers(1, 5)) for _ in sizes]
    parts = tuple(weight / sum(weights) for weight in weights)
    return Need(tuple(Bytes(size << 30) for size in sizes), parts, firm=draw(st.booleans()))


def local_jobs() -> SearchStrategy[LocalJob]:
    """Return jobs of one machine as a record can carry them, without an owner."""
    amounts = st.integers(0, 1 << 62).map(Bytes)
    positive = st.floats(0, 1e15)
    moments = st.floats(-6e10, 6e10)
    durations = st.floats(0, 1e9).map(Seconds)
    texts = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=40)
    processes = st.builds(ProcessRef, st.integers(1, (1 << 31) - 1), st.integers(0, 1 << 62), texts)
    needs = st.lists(amounts, min_size=1, max_size=4).flatmap(
        lambda sizes: st.builds(
            Need,
            st.just(tuple(sorted(sizes))).filter(lambda each: each[-1] < 1 << 62),
            st.just((1 / len(sizes),) * len(sizes)),
            st.booleans(),
            st.sampled_from(NeedSource),
            texts,
            st.floats(1e-9, 0.5),
        )
    )
    some = st.none()
    requested = st.builds(
        Requested,
        some | positive,
        some | amounts,
        some | amounts,
        some | amounts,
        some | st.integers(0, 64),
        texts,
        texts,
        some | durations,
    )
    assumed = st.builds(
        Assumed,
        st.integers(0, 1 << 40),
        amounts,
        st.integers(0, 64),
        st.booleans(),
        some | needs,
        some | durations,
        st.booleans(),
        st.booleans(),
        st.dictionaries(texts, positive, max_size=3),
        texts,
    )
    shares = st.builds(DeviceShare, texts, amounts, st.integers(0, 1000), st.booleans(), st.booleans())
    use = st.builds(
        JobUse,
        positive,
        st.integers(0, 1 << 40),
        amounts,
        st.dictionaries(texts, amounts, max_size=3),
        st.dictionaries(texts, st.floats(0, 1), max_size=3),
        amounts,
        amounts,
        st.booleans(),
    )
    return st.builds(
        LocalJob,
        st.just(""),
        st.integers(1, 10**12),
        texts,
        st.just(-1),
        st.just(""),
        st.sampled_from(JobKind),
        st.sampled_from(LocalState),
        moments,
        positive,
        texts,
        requested,
        assumed,
        st.integers(-MOST_PRIORITY, MOST_PRIORITY),
        st.lists(texts, max_size=4).map(tuple),
        some | durations,
        texts,
        st.lists(shares, max_size=3).map(tuple),
        some | processes,
        some | processes,
        some | use,
        some | moments,
        some | positive,
        some | moments,
        some | st.integers(0, 255),
        texts,
    ).map(lambda job: replace(job, id=str(job.number)))
