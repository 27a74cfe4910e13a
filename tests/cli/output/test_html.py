"""Pages as HTML: every block is there, and no text is taken for markup."""

from html.parser import HTMLParser

from fairlead.cli.output import html
from fairlead.cli.output.table import Cell, Table, Tone
from fairlead.cli.output.terminal import Page, Reasons, Text


class Reader(HTMLParser):
    """Collects the texts of a document by tag; a tag that is not closed is a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img")
        assert not any(name in ("src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data))


def read(text: str) -> list[tuple[str, str]]:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader.texts


def test_a_page_has_every_block() -> None:
    page = Page.of(
        Table.of(("A", "B"), [("1 < 2", Cell("<b>", tone=Tone.BAD))]),
        "",
        Text("a note & more", Tone.WARN),
        Reasons("no: one, two", "no:", ("one", "two")),
    )
    texts = read(html.document("T & U", [html.heading("One"), *html.page_html(page)]))
    assert [each for each in texts if each[0] != "style"] == [
        ("title", "T & U"),
        ("h2", "One"),
        ("th", "A"),
        ("th", "B"),
        ("td", "1 < 2"),
        ("td", "<b>"),
        ("p", "a note & more"),
        ("p", "no: one, two"),
    ]


def test_commands_and_long_texts() -> None:
    assert read(html.command_line("x '<y>'")) == [("pre", "$ x '<y>'")]
    assert read(html.folded("more", "{}")) == [("summary", "more"), ("pre", "{}")]
