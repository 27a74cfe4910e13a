"""Pages for people as one HTML file that needs nothing else: no script, no font, no network."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from fairlead.cli.output.table import Table, Tone
from fairlead.cli.output.terminal import Page, Reasons

_STYLE: Final = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2.5em;border-top:1px solid #8888;padding-top:1em}
.table{overflow-x:auto;margin:1em 0}table{border-collapse:collapse;font-size:.9em}
th,td{text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid #8883;white-space:nowrap}
td{font-variant-numeric:tabular-nums}p{margin:.3em 0}
pre{background:#8882;padding:.6em .9em;overflow-x:auto}svg{max-width:100%;height:auto}
.good{color:#2f9e6e}.warn{color:#d9822b}.bad{color:#c2554f}
"""


def document(title: str, parts: Iterable[str]) -> str:
    """Return a whole HTML document around parts that are HTML already."""
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>",
        "<body>",
        *parts,
        "</body></html>",
    ]
    return "\n".join([*lines, ""])


def heading(text: str, level: int = 2, anchor: str = "") -> str:
    """Return a heading."""
    place = f' id="{escape(anchor)}"' if anchor else ""
    return f"<h{level}{place}>{escape(text)}</h{level}>"


def paragraph(text: str, tone: Tone | None = None) -> str:
    """Return a line of prose."""
    kind = f' class="{tone.value}"' if tone else ""
    return f"<p{kind}>{escape(text)}</p>"


def command_line(text: str) -> str:
    """Return a command, to be copied."""
    return f"<pre>$ {escape(text)}</pre>"


def picture(svg: str) -> str:
    """Return a picture, inside the document."""
    return f"<figure>{svg}</figure>"


def folded(summary: str, text: str) -> str:
    """Return a long text that opens on a click."""
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"


def page_html(page: Page) -> Iterator[str]:
    """Yield the blocks of a page as HTML."""
    for block in page.blocks:
        if isinstance(block, Table):
            yield from _table(block)
            continue
        tone = block.tone
        text = block.sentence if isinstance(block, Reasons) else block.text
        if text.strip():
            yield paragraph(text, tone)


def _table(table: Table) -> Iterator[str]:
    yield '<div class="table"><table>'
    if table.headers:
        yield f"<tr>{''.join(f'<th>{escape(each.name)}</th>' for each in table.columns)}</tr>"
    for row in table.rows:
        yield f"<tr>{''.join(_cell(each.text, each.tone) for each in row)}</tr>"
    yield "</table></div>"


def _cell(text: str, tone: Tone | None) -> str:
    kind = f' class="{tone.value}"' if tone else ""
    return f"<td{kind}>{escape(text)}</td>"
