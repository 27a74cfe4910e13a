"""The archives of the images that a lab needs for pipelines: those that `make image` writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import LabError
from fairlead.lab.node.load import check

DEFAULT_FOLDER: Final = "build"


@dataclass(frozen=True, slots=True)
class PipelineImages:
    """The images of the operator and of the pods of pipelines."""

    operator: Path
    pipeline: Path

    @property
    def archives(self) -> tuple[Path, Path]:
        """Both."""
        return self.operator, self.pipeline


def find_images(folder: Path) -> PipelineImages:
    """Return the images in a folder; LabError where one is missing or is no archive."""
    found = PipelineImages(*(folder / f"fairlead-{name}-image.tar" for name in ("operator", "pipeline")))
    for archive in found.archives:
        if not archive.exists():
            raise LabError(
                f"{archive}: no such image",
                "make it of this version (`fairlead docs image`), and name its folder with --images",
            )
        check(archive)
    return found
