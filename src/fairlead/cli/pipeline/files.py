"""The files of a folder that the stages of a pipeline need: its modules, and what stages name."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from fairlead.errors import PipelineError
from fairlead.units import Bytes, format_bytes, pluralize

if TYPE_CHECKING:
    from fairlead.pipeline.spec import PipelineSpec, StageSpec

MOST_BYTES: Final = 900 << 10
"""An object of a cluster has at most 1 MiB."""
_MOST_FILES: Final = 256
_NEVER: Final = ("__pycache__", "node_modules", "site-packages")
_INSTEAD: Final = "put them into an image (cluster: {image: IMAGE}), and deploy with --no-files"


def collect_files(spec: "PipelineSpec", include: Sequence[str] = ()) -> dict[str, bytes]:
    """Return the files by their path in the folder of the pipeline; PipelineError if they are too large.

    `include` names what stages need and do not name, such as a file that a module opens.
    """
    paths = sorted({*_needed(spec), *(_included(spec, path) for path in include)})
    size = sum(os.path.getsize(os.path.join(spec.folder, path)) for path in paths)
    if size > MOST_BYTES or len(paths) > _MOST_FILES:
        what = f"stages need {pluralize(len(paths), 'file')} of {format_bytes(Bytes(size))}"
        raise PipelineError(f"{spec.path}: {what}; at most {format_bytes(Bytes(MOST_BYTES))} fit", _INSTEAD)
    files = {}
    for path in paths:
        with open(os.path.join(spec.folder, path), "rb") as file:
            files[path] = file.read()
    return files


def _included(spec: "PipelineSpec", path: str) -> str:
    """Return a path that the user has named; PipelineError where it is no file of the folder."""
    normal = os.path.normpath(path)
    if not _is_inside(spec.folder, normal):
        raise PipelineError(
            f"--include {path}: no such file below {spec.folder}", "name it relative to the pipeline's file"
        )
    return normal


def _needed(spec: "PipelineSpec") -> Iterator[str]:
    for stage in spec.stages:
        yield from (path for path in _named(stage) if _is_inside(spec.folder, path))
    modules = [stage.target.partition(":")[0] for stage in spec.stages if stage.kind == "function"]
    modules += [str(stage.options.get("function", "")).partition(":")[0] for stage in spec.stages]
    if any(_is_here(spec.folder, module) for module in modules if module):
        yield from _python_files(spec.folder)


def _named(stage: "StageSpec") -> Iterator[str]:
    """Yield the paths that a stage may name: its model, its program, and its options."""
    texts: list[Any] = [stage.target, *stage.command, *stage.options.values()]
    for text in texts:
        if isinstance(text, str) and text and len(text) < 512 and stage.role != "sink":
            yield os.path.normpath(text.partition(":")[0] if ".py:" in text else text)


def _is_inside(folder: str, path: str) -> bool:
    """Return whether a path is a file of the folder."""
    if os.path.isabs(path) or path.startswith("..") or "\0" in path:
        return False
    return os.path.isfile(os.path.join(folder, path))


def _is_here(folder: str, module: str) -> bool:
    """Return whether a module is a file or a package of the folder, and not an installed one."""
    if module.endswith(".py"):
        return _is_inside(folder, os.path.normpath(module))
    first = os.path.join(folder, module.partition(".")[0])
    return os.path.isfile(f"{first}.py") or os.path.isdir(first)


def _python_files(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in sorted(folders)
            if name not in _NEVER
            and not name.startswith(".")
            and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
        ]
        for name in names:
            if name.endswith(".py"):
                yield os.path.relpath(os.path.join(place, name), folder)
