"""Functions that `fairlead examples` and `fairlead manifests` share: find and copy shipped files."""

import os
from collections.abc import Mapping
from pathlib import Path

from fairlead.cli.shell.commandline import nearest
from fairlead.errors import SettingsError, UserError
from fairlead.outfile import atomic_write


def find_file(kind: str, name: str, known: Mapping[str, Path]) -> Path:
    """Return a file by its name; the error for an unknown name suggests the nearest."""
    if name in known:
        return known[name]
    near = nearest(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"see: fairlead {kind}"
    raise UserError(f"no {name!r} among the {kind}", hint)


def copy_files(sources: Mapping[str, Path], folder: str) -> list[str]:
    """Copy files below a folder, each whole or not at all; return the paths of the copies."""
    written = []
    for name, source in sources.items():
        target = os.path.join(folder, name)
        try:
            with atomic_write(target, folders=True) as out:
                out.write(source.read_bytes())
        except OSError as error:
            raise SettingsError(
                f"--out {target}: {error.strerror}", "name a folder that you may write to"
            ) from None
        written.append(target)
    return written
