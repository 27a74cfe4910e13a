"""Tables fit a terminal without losing a word; a pipe gets every row on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli.output.table import Cell, Column, Fit, Table, shorten_middle, wrap_text
from fairlead.cli.output.terminal import Page, Reasons, Screen, Text

WORDS = st.text("abcdefgh-", min_size=1, max_size=12)
PROSE = st.lists(WORDS, max_size=12).map(" ".join)
HEAD = (Column("NAME", Fit.KEEP), Column("WHERE"), Column("WHY", Fit.PROSE))
ROWS = st.lists(st.tuples(WORDS, PROSE, PROSE), min_size=1, max_size=5)


def lines(table: Table, width: int | None) -> list[str]:
    return Page.of(table).render(Screen(width)).split("\n")


@given(ROWS, st.integers(30, 120))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    table = Table.of(HEAD, rows)
    shown = lines(table, width)
    assert all(len(line) <= width for line in shown)
    words = " ".join(shown).split()
    for word in (word for row in rows for cell in row for word in cell.split() if word.strip("-")):
        assert word in words


@given(ROWS)
def test_a_pipe_gets_every_row_on_one_line(rows: list[tuple[str, str, str]]) -> None:
    shown = lines(Table.of(HEAD, rows), None)
    assert len(shown) == 1 + len(rows)
    for line, row in zip(shown[1:], rows, strict=True):
        assert all(cell.strip() in line for cell in row)


def test_a_table_that_fits_is_printed_as_to_a_pipe() -> None:
    table = Table.of(("A", "B"), [("one", "two three"), ("four", "five")])
    assert lines(table, 80) == lines(table, None) == ["A     B", "one   two three", "four  five"]


def test_words_wrap_and_the_first_column_does_not() -> None:
    table = Table.of(("NAME", "SHARE", "PEAK"), [("a-long-name-1", "24 GiB shared", "9.42 TOPS int8")])
    assert lines(table, 27) == [
        "NAME           SHARE   PEAK",
        "a-long-name-1  24 GiB  9.42",
        "               shared  TOPS",
        "                       int8",
    ]


def test_prose_goes_below_its_row_if_the_line_is_too_short() -> None:
    rows = [
        ("coral-usb", "59.1 ms", "first convert it to tflite, then quantise it to int8"),
        ("t4", "1 ms", "-"),
    ]
    table = Table.of((Column("DEVICE", Fit.KEEP), Column("LATENCY"), Column("WHY", Fit.PROSE)), rows)
    assert lines(table, 40) == [
        "DEVICE     LATENCY",
        "  WHY",
        "coral-usb  59.1 ms",
        "  first convert it to tflite, then",
        "  quantise it to int8",
        "t4         1 ms",
    ]


def test_a_terminal_too_narrow_for_words_gets_names_with_their_values() -> None:
    table = Table.of(("NAME", "MODEL", "BUS"), [("Hailo-8", "hailo-8|hailo-8l", "pci:0001:01:00.0")])
    assert lines(table, 30) == ["Hailo-8", "  MODEL hailo-8|hailo-8l", "  BUS pci:0001:01:00.0"]


@pytest.mark.parametrize(
    ("text", "width", "shortened"),
    [
        ("/home/me/.cache/bin/kubectl", 27, "/home/me/.cache/bin/kubectl"),
        ("/home/me/.cache/bin/kubectl", 20, "/home/m…/bin/kubectl"),
        ("/home/me", 2, "/…"),
    ],
)
def test_a_path_is_shortened_in_its_middle(text: str, width: int, shortened: str) -> None:
    assert shorten_middle(text, width) == shortened
    assert len(shortened) <= width


def test_a_path_column_is_shortened_and_its_table_fits() -> None:
    table = Table.of((Column("PROGRAM", Fit.KEEP), Column("PATH", Fit.MIDDLE)), [("kubectl", "/a" * 40)])
    assert [len(line) for line in lines(table, 40)] == [13, 40]
    assert lines(table, None)[1].endswith("/a" * 40)


def test_an_indented_text_stays_indented() -> None:
    assert wrap_text("  one two three", 9) == ["  one two", "  three"]
    assert Page.of(Text("  one two three")).render(Screen(9)) == "  one two\n    three"


def test_a_refusal_is_one_line_for_programs_and_several_on_a_narrow_terminal() -> None:
    refusal = Reasons(
        "refused: 0 of 2 can: 1 lacks x, 1 lacks y", "refused: 0 of 2 can", ("1 lacks x", "1 lacks y")
    )
    assert str(Page.of(refusal)) == Page.of(refusal).render(Screen(80)) == refusal.sentence
    assert Page.of(refusal).render(Screen(30)) == "refused: 0 of 2 can\n  1 lacks x\n  1 lacks y"


def test_a_column_without_a_name_and_rows_without_headers() -> None:
    table = Table.of(("A", ""), [(Cell("x"), 1)], headers=False)
    assert lines(table, None) == ["x  1"]
