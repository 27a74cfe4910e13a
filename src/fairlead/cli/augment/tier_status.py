"""`fairlead augment tier --status DIR`: what a running tier holds, has moved, and why."""

import argparse
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fairlead.cli.output.show import show
from fairlead.cli.output.table import Table
from fairlead.cli.output.terminal import Page, show_page
from fairlead.compat.times import UTC
from fairlead.tiering.program.status import read_status
from fairlead.units import format_bytes, pluralize


def show_status(options: argparse.Namespace) -> int:
    """Print the last status of a tier."""
    document = read_status(options.status)
    if options.output == "table":
        show_page(page(document), options.color)
    else:
        show(document, options.output)
    return 0


def page(document: Mapping[str, Any]) -> Page:
    """Return a status for people."""
    moves, files = document["moves"], document["files"]
    accesses = document["accesses"]
    ratio = f"{100 * document['hits'] / accesses:.1f} %" if accesses else "-"
    lines = [
        f"{document['fast']}: {pluralize(files['fast'], 'file')}, {format_bytes(document['used'])} of "
        f"{format_bytes(document['capacity'])}",
        f"{document['slow']}: {pluralize(files['slow'], 'file')} at the last look",
        f"policy {document['policy']}: {document['why']}",
        f"{pluralize(accesses, 'access', 'accesses')} since the start, {ratio} on the fast volume",
        f"{moves['promoted']} promoted, {moves['demoted']} demoted, {moves['given_up']} given up, "
        f"{format_bytes(moves['copied_bytes'])} copied",
        f"as of {_time(document['updated'])}, process {document['pid']}",
    ]
    rows = [
        [_time(each["time"]), each["key"], each["to"], each.get("why") or format_bytes(each["copied"])]
        for each in document["recent"]
    ]
    if not rows:
        return Page.of(lines)
    return Page.of(lines, "", Table.of(("TIME", "FILE", "TO", "COPIED"), rows))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
