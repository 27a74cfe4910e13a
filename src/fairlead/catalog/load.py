"""Read the catalog: the shipped files, then the user's own, which may replace rows."""

import os
import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from fairlead.catalog.device import CatalogDevice, UnlistedShape
from fairlead.catalog.index import Catalog
from fairlead.catalog.parse import parse_document
from fairlead.compat import toml
from fairlead.errors import CatalogError

SHIPPED: Final = os.path.join(os.path.dirname(__file__), "data")
SYSTEM: Final = "/etc/fairlead/catalog.d"
VARIABLE: Final = "FAIRLEAD_CATALOG"
_ID: Final = re.compile(r'^id\s*=\s*"([^"]+)"', re.MULTILINE)
_SIZE_LIMIT: Final = 4 * 1024 * 1024


def load(extra: Iterable[str] = (), *, shipped: bool = True) -> Catalog:
    """Read the shipped catalog and then `extra` files or folders; later rows replace earlier ones."""
    devices, shapes = _shipped() if shipped else ((), ())
    for more_devices, more_shapes in map(read_file, (file for place in extra for file in _files(place))):
        devices += tuple(more_devices)
        shapes += tuple(more_shapes)
    return Catalog.of(devices, shapes)


@cache
def _shipped() -> tuple[tuple[CatalogDevice, ...], tuple[UnlistedShape, ...]]:
    """Return the shipped rows, read once: their files do not change while a program runs."""
    rows = [read_file(path) for path in _files(SHIPPED)]
    devices = tuple(device for file_devices, _ in rows for device in file_devices)
    return devices, tuple(shape for _, file_shapes in rows for shape in file_shapes)


def device_ids() -> list[str]:
    """Return the ids of every device, sorted, without parsing the rows: shell completion calls it often."""
    ids: set[str] = set()
    for path in [*_files(SHIPPED), *(file for place in user_places() for file in _files(place))]:
        with open(path, encoding="utf-8") as stream:
            ids |= set(_ID.findall(stream.read(_SIZE_LIMIT)))
    return sorted(ids)


def user_places() -> list[str]:
    """Return the paths of the user's own catalog files: the system folder, then $FAIRLEAD_CATALOG."""
    named = [place for place in os.environ.get(VARIABLE, "").split(os.pathsep) if place]
    return ([SYSTEM] if os.path.isdir(SYSTEM) else []) + named


def read_file(path: str) -> tuple[list[CatalogDevice], list[UnlistedShape]]:
    """Return the rows of one catalog file."""
    origin = os.path.basename(path) if path.startswith(SHIPPED) else path
    try:
        with open(path, "rb") as stream:
            data = stream.read(_SIZE_LIMIT + 1)
        if len(data) > _SIZE_LIMIT:
            raise CatalogError(f"{path}: larger than {_SIZE_LIMIT >> 20} MiB", "split it into several files")
        return parse_document(toml.loads(data.decode()), origin)
    except OSError as error:
        raise CatalogError(
            f"{path}: {error.strerror}", "name a readable TOML file or a folder of them"
        ) from None
    except (toml.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CatalogError(f"{path}: not TOML: {error}", "see: fairlead catalog show coral-usb") from None


def _files(place: str) -> list[str]:
    if not os.path.isdir(place):
        return [place]
    return sorted(os.path.join(place, name) for name in os.listdir(place) if name.endswith(".toml"))
