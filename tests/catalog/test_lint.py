"""The linter: it reports each fault that the schema cannot find, with the row."""

import pytest

from fairlead.catalog import Catalog, lint
from fairlead.catalog.parse import parse_document
from fairlead.compat import toml

VALID = 'match.pci = ["aaaa:0001"]\npeak.int8 = 1e12\ndriver = [{name = "d"}]'


def row(name: str, text: str = VALID) -> str:
    """Return a row of the catalog."""
    return f'[[device]]\nid = "{name}"\nname = "{name}"\nvendor = "V"\nkind = "npu"\n{text}\n'


def faults(*rows: str) -> list[str]:
    """Return the linter's faults of a catalog."""
    devices, shapes = parse_document(toml.loads("schema = 1\n" + "".join(rows)), "mine.toml")
    return lint(Catalog.of(devices, shapes))


def other(text: str) -> str:
    """Return a valid row with other keys."""
    return VALID.replace('match.pci = ["aaaa:0001"]', text)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([row("a"), row("b")], "a and b both claim PCI aaaa:0001: declare shares on both, or narrow one"),
        (
            [row("a", other('match.usb = ["aaaa:0001"]')), row("b", other('match.usb = ["aaaa:0001"]'))],
            "both claim USB aaaa:0001",
        ),
        (
            [row("a", other('match.soc = ["s"]')), row("b", other('match.soc = ["s"]'))],
            "a and b both claim SoC s",
        ),
        (
            [row("a", other('match.board = ["s"]')), row("b", other('match.board = ["s"]'))],
            "a and b both claim board s",
        ),
        (
            [row("a", other('match.node = ["s"]')), row("b", other('match.node = ["s"]'))],
            "a and b both claim node s",
        ),
        (
            [row("a", other('match.nvml = ["s"]')), row("b", other('match.nvml = ["s"]'))],
            "a and b both claim NVML name 's'",
        ),
        (
            [
                row("a", other('match.module = ["p1111-0000"]')),
                row("b", other('match.module = ["p1111-0000"]')),
            ],
            "a and b both claim module p1111-0000",
        ),
        (
            [
                row("a"),
                row(
                    "b",
                    other('match.usb = ["aaaa:0001"]') + '\nvariant = [{name = "v", pci = ["aaaa:0001"]}]',
                ),
            ],
            "a and b both claim PCI aaaa:0001",
        ),
        (
            [row("a", VALID + '\nmatch.shares = ["ghost"]')],
            "a: shares names 'ghost', which is not in the catalog",
        ),
        ([row("a", VALID + '\nmatch.shares = ["b"]'), row("b")], "a: shares b, but b does not share a"),
        (
            [row("a", other('match.pci = ["aaaa:0000-ffff"]'))],
            "a: only a generic row may claim the range aaaa:0000-ffff",
        ),
        (
            [
                row("a", other('generic = true\nmatch.pci = ["aaaa:0000-0fff"]')),
                row("b", other('generic = true\nmatch.pci = ["aaaa:0800-ffff"]')),
            ],
            "a and b claim overlapping ranges aaaa:0000-0fff and aaaa:0800-ffff",
        ),
        ([row("a", other(""))], "a: has no match key, so nothing can ever be this device"),
        ([row("a", other('match.soc = ["s"]\nmatch.needs_node = true'))], "a: needs a node, but names none"),
        (
            [row("a", VALID.replace('driver = [{name = "d"}]', ""))],
            "a: names no driver, so it can never be more than present",
        ),
        (
            [row("a", VALID + '\nunverified = ["speed"]')],
            "a: unverified names 'speed', which is not a figure",
        ),
        (
            [row("a", VALID.replace("peak.int8 = 1e12", ""))],
            "a: has no peak and does not say so in unverified",
        ),
        (
            [row("a", VALID + '\naliases = ["b"]'), row("b", other('match.usb = ["aaaa:0001"]'))],
            "the name 'b' already belongs to a",
        ),
        (
            [
                row("a", VALID + '\naliases = ["x"]'),
                row("b", other('match.usb = ["aaaa:0001"]') + '\naliases = ["x"]'),
            ],
            "b: the name 'x' already belongs to a",
        ),
        (
            [
                row("a", 'match.cpu = { arch = "x86_64" }').replace('"npu"', '"cpu"'),
                row("b", 'match.cpu = { arch = "x86_64" }').replace('"npu"', '"cpu"'),
            ],
            "a and b both claim CPU x86_64",
        ),
    ],
)
def test_each_fault_is_reported(rows: list[str], fault: str) -> None:
    assert any(fault in reported for reported in faults(*rows)), faults(*rows)


@pytest.mark.parametrize(
    "rows",
    [
        [row("a")],
        [row("a", VALID + '\nmatch.shares = ["b"]'), row("b", VALID + '\nmatch.shares = ["a"]')],
        [row("a"), row("b", other('match.pci = ["aaaa:0001 rev 01"]'))],  # the revisions differ
        [
            row("a"),
            row("b", other('generic = true\nmatch.pci = ["aaaa:0000-ffff"]')),
        ],  # the id wins over the range
        [row("a", VALID.replace("peak.int8 = 1e12", 'unverified = ["peak"]'))],
        [row("a", VALID.replace("peak.int8 = 1e12", "generic = true"))],
        [row("a", VALID + '\nunverified = ["peak.int8-sparse", "memory", "power"]')],
        [],
    ],
)
def test_a_valid_catalog_has_no_fault(rows: list[str]) -> None:
    assert faults(*rows) == []


def test_the_catalog_of_the_tests_is_valid(small: Catalog) -> None:
    assert lint(small) == []
