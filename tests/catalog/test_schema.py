"""The schema: a wrong document is refused with the file, the row and the field."""

import pytest

from fairlead.catalog.parse import parse_document, parse_node_key, parse_pci_key
from fairlead.compat import toml
from fairlead.errors import CatalogError

ROW = 'id = "x"\nname = "X"\nvendor = "V"\nkind = "npu"\n'


def document(row: str = "", *, more: str = "") -> str:
    """Return a catalog file of one row, with more lines in it."""
    return f"schema = 1\n[[device]]\n{ROW}{row}\n{more}"


def parsed(text: str) -> CatalogError:
    """Return the error that a document gives."""
    with pytest.raises(CatalogError) as caught:
        parse_document(toml.loads(text), "mine.toml")
    return caught.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mine.toml: schema: expected schema = 1, the only one this version reads, found None"),
        ("schema = 2", "mine.toml: schema: expected schema = 1, the only one this version reads, found 2"),
        ('schema = "1"', "mine.toml: schema: expected a number, found '1'"),
        ("schema = true", "mine.toml: schema: expected a number that is not negative, found True"),
        ("schema = 1\ndevices = []", "mine.toml: unknown field 'devices'"),
        ("schema = 1\ndevice = 3", "mine.toml: device: expected a list of tables, found 3"),
        ("schema = 1\ndevice = [3]", "mine.toml: device[0]: expected a table, found int"),
        ("schema = 1\ndefaults = 3\n[[device]]", "mine.toml: defaults: expected a table, found int"),
        ("schema = 1\n[[device]]", "mine.toml: device[0] (#0): id is missing"),
        ('schema = 1\n[[device]]\nid = "x"', "mine.toml: device[0] (x): name is missing"),
        ("schema = 1\n[[device]]\nid = 7", "mine.toml: device[0] (7): id: expected a string, found 7"),
        (
            document().replace('"x"', '"Not Kebab"'),
            "device[0] (Not Kebab): id: expected a kebab-case id, found 'Not Kebab'",
        ),
        (document().replace('"npu"', '"toaster"'), "mine.toml: device[0] (x): unknown kind 'toaster'"),
        (document('aliases = ["A B"]'), "device[0] (x): aliases: expected kebab-case ids, found 'A B'"),
        (document("shareable = 1"), "device[0] (x): shareable: expected true or false, found 1"),
        (document("colour = 1"), "mine.toml: device[0] (x): unknown field 'colour'"),
        (document("peak.int9 = 1"), "mine.toml: device[0] (x): peak: unknown precision 'int9'"),
        (
            document("peak.int8 = -1"),
            "device[0] (x): peak: int8: expected a number that is not negative, found -1",
        ),
        (
            document("peak.int8 = nan"),
            "device[0] (x): peak: int8: expected a number that is not negative, found nan",
        ),
        (
            document("peak.int8 = inf"),
            "device[0] (x): peak: int8: expected a number that is not negative, found inf",
        ),
        (document('peak.int8 = "4T"'), "device[0] (x): peak: int8: expected a number, found '4T'"),
        (document("peak = 4"), "mine.toml: device[0] (x): peak: expected a table, found int"),
        (
            document('memory.bytes = "lots"'),
            "device[0] (x): memory: bytes: 'lots' is not an amount of memory",
        ),
        (document("memory.bytes = 8"), "device[0] (x): memory: bytes: expected a string, found 8"),
        (document('memory.size = "1"'), "mine.toml: device[0] (x): memory: unknown field 'size'"),
        (
            document('match.pci = ["1e60"]'),
            "device[0] (x): match: pci: '1e60' is not a PCI key; write it like 1e60:2864",
        ),
        (
            document('match.pci = "1e60:2864"'),
            "device[0] (x): match: pci: expected a list of strings, found '1e60:2864'",
        ),
        (
            document('match.usb = ["18D1:9302"]'),
            "device[0] (x): match: usb: expected USB ids like 18d1:9302, found '18D1:9302'",
        ),
        (
            document('match.module = ["3448"]'),
            "match: module: expected module ids like p3448-0000, found '3448'",
        ),
        (document('match.soc = [""]'), "device[0] (x): match: soc: expected a list of strings, found ['']"),
        (document('match.dt = ["x"]'), "mine.toml: device[0] (x): match: unknown field 'dt'"),
        (document("match.cpu = { flags = [] }"), "mine.toml: device[0] (x): match: cpu: arch is missing"),
        (
            document("driver = [{}]"),
            "device[0] (x): driver[0]: name: expected a kernel driver's name, or userspace = true",
        ),
        (
            document('driver = [{name = "a"}, {nmae = "b"}]'),
            "mine.toml: device[0] (x): driver[1]: unknown field 'nmae'",
        ),
        (
            document('engine = [{name = "dla", kind = "x"}]'),
            "mine.toml: device[0] (x): engine[0]: unknown kind 'x'",
        ),
        (document('variant = [{memory = "4GiB"}]'), "mine.toml: device[0] (x): variant[0]: name is missing"),
        (
            document('variant = [{name = "a", pci = ["z"]}]'),
            "device[0] (x): variant[0]: pci: 'z' is not a PCI key",
        ),
        (document('link = {bus = "usb"}'), "mine.toml: device[0] (x): link: full is missing"),
        (
            document('link = {bus = "isa", full = "5Gb/s"}'),
            "mine.toml: device[0] (x): link: unknown bus 'isa'",
        ),
        (
            document('link = {bus = "usb", full = "5GB/s"}'),
            "link: full: '5GB/s' has no known unit for a link rate",
        ),
        (document(more=f"[[device]]\n{ROW}bad = 1"), "mine.toml: device[1] (x): unknown field 'bad'"),
        ('schema = 1\n[[shape]]\nclass = ["1200"]', "mine.toml: shape[0]: says is missing"),
        ('schema = 1\n[[decoy]]\nsays = "x"\npci = "?"', "mine.toml: decoy[0]: pci: '?' is not a PCI key"),
        ('schema = 1\n[[decoy]]\nsays = "x"\npci = ["?"]', "mine.toml: decoy[0]: pci: '?' is not a PCI key"),
    ],
)
def test_an_error_names_file_row_and_field(text: str, message: str) -> None:
    assert message in str(parsed(text))
    assert str(parsed(text)).startswith("mine.toml: ")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (document("colour = 1"), "known here: aliases, clock, driver, "),
        (document().replace('"npu"', '"toaster"'), "known: cpu, gpu, tpu, npu, vpu, dsp, fpga"),
        (document("peak.int9 = 1"), "known: int4, int8, "),
        ("schema = 1\n[[device]]", "add id = a string"),
        (document('link = {bus = "usb"}'), 'add full = "5Gb/s"'),
    ],
)
def test_an_error_says_what_to_do(text: str, hint: str) -> None:
    assert parsed(text).hint.startswith(hint)


def test_defaults_fill_in_missing_fields() -> None:
    text = 'schema = 1\n[defaults]\nkind = "npu"\nvendor = "V"\n[[device]]\nid = "a"\nname = "A"\n'
    text += '[[device]]\nid = "b"\nname = "B"\nkind = "gpu"\n'
    (a, b), _ = parse_document(toml.loads(text), "mine.toml")
    assert (a.kind, b.kind, b.vendor, b.family) == ("npu", "gpu", "V", "b")


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("10de:2200-223f", 0),
        ("1e60:2864", 1),
        ("1022:17f0 rev 10", 2),
        ("1e52:401e sub 1e52:0018", 3),
        ("1022:17f0 rev 10 sub 1022:0001", 4),
    ],
)
def test_pci_keys(text: str, rank: int) -> None:
    key = parse_pci_key(text)
    assert str(key) == text
    assert key.rank == rank


@pytest.mark.parametrize(
    "text", ["", "1e60", "1e60:286", "1E60:2864", "1e60:2864 rev 1", "1e60:2864 ", "1e60:2864 sub 1", "*:*"]
)
def test_invalid_pci_keys(text: str) -> None:
    with pytest.raises(ValueError, match="is not a PCI key"):
        parse_pci_key(text)


def test_node_keys() -> None:
    assert str(parse_node_key("vivante,gc@npu")) == "vivante,gc@npu"
    assert parse_node_key("acme,npu").name is None
