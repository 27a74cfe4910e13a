"""The model files that a container's program names, as paths in the container. Pure.

Kubernetes replaces `$(NAME)` in commands, arguments and variables; a shell in the container replaces `$NAME`
and `${NAME}`. Both come from the container's own variables here; what a program computes is not known.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.cluster.objects import EnvVar
from fairlead.manifest.types.program import ProgramContainer

ENDINGS: Final = (".onnx", ".tflite")
_PATH: Final = re.compile(r"""[^\s\x00-\x1f"'=,;|&()<>\[\]{}`]+\.(?:onnx|tflite)(?![\w./-])""", re.IGNORECASE)
_URL: Final = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\$\((\w+)\)|\$\{(\w+)\}|\$(\w+)")
_MOST_TEXT: Final = 64 << 10
"""Characters of one argument or value that are searched."""
MOST_PATHS: Final = 64
"""The most model files that one container names."""


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says of its program where the container does not."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    working_dir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


NO_CONFIG: Final = ImageConfig()


def is_model(name: str) -> bool:
    """Return whether a file is a model by its ending."""
    return name.lower().endswith(ENDINGS)


def variables(env: Iterable[EnvVar], config: ImageConfig = NO_CONFIG) -> dict[str, str]:
    """Return a container's variables, each with the earlier ones replaced in it."""
    values = dict(config.env)
    for variable in env:
        values[variable.name] = _expand(variable.value[:_MOST_TEXT], values)
    return values


def named_models(container: ProgramContainer, config: ImageConfig = NO_CONFIG) -> list[str]:
    """Return the model files that a container names, absolute, in order; URLs as written."""
    values = variables(container.env, config)
    command = container.command or config.entrypoint
    args = container.args or (() if container.command else config.command)
    texts = [*(_expand(text[:_MOST_TEXT], values) for text in (*command, *args)), *values.values()]
    folder = container.working_dir or config.working_dir or "/"
    paths = (_absolute(path, folder) for text in texts for path in _paths(text))
    return list(dict.fromkeys(paths))[:MOST_PATHS]


def is_url(path: str) -> bool:
    """Return whether a model is at a URL and not in a file of the container."""
    return bool(_URL.match(path))


def expand(text: str, values: Mapping[str, str]) -> str | None:
    """Return a text with `$(NAME)` replaced; None where a variable is not known."""
    expanded = _expand(text, values)
    return None if "$(" in expanded else expanded


def _paths(text: str) -> Iterator[str]:
    for match in _PATH.finditer(text):
        path = match[0]
        # `name:/path` and `key:path` are common in arguments; a URL keeps its colon.
        yield path if is_url(path) else path.rpartition(":")[2]


def _absolute(path: str, folder: str) -> str:
    if path.lower().startswith("file://"):
        path = path[len("file://") :]
    if is_url(path):
        return path
    return posixpath.normpath(posixpath.join("/", folder, path)).replace("//", "/", 1)


def _expand(text: str, values: Mapping[str, str]) -> str:
    """Replace known variables, once: a value is not expanded again."""
    replaced = _VARIABLE.sub(lambda match: values.get(match[1] or match[2] or match[3], match[0]), text)
    return replaced[:_MOST_TEXT]
