"""What every part of a frame needs: the status, the width, characters, names and styles."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.cli.live.paint import Glyphs, Style
from fairlead.local.status import LocalStatus


@dataclass(frozen=True, slots=True)
class FrameContext:
    """What every part of a frame needs."""

    status: LocalStatus
    width: int
    """Cells of a line."""
    glyphs: Glyphs
    labels: Mapping[str, str]
    """Short names of accelerators, by id."""
    styles: Mapping[str, Style]
    """The styles of running jobs, by id."""
