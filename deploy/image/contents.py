"""The contents of an image: a trimmed Python, the libraries it needs, fairlead and its packages.

    /usr/bin/fairlead             the command
    /usr/bin/python3              its interpreter, with /usr/lib/python3.*
    /usr/lib/fairlead             fairlead and the packages it depends on
    /lib/*-linux-gnu, /lib64      the C library and others, at the loader's default paths
    /etc                          the users: root, and fairlead (10001)

There is no shell, no package manager, and no setuid program. Modules are present in compiled form only: from
sources the agent would start four times slower and take 12 MiB more memory to compile them; with the sources
beside them the image would be a fifth larger, for the lines in a traceback.
"""

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from deploy.image import elf
from deploy.image.libraries import closure
from deploy.image.packages import ensure_packages
from deploy.image.pythons import Python
from deploy.image.recipes import HOUSE, Recipe
from fairlead.errors import UserError

USER: Final = 10001
PROGRAM: Final = "usr/bin/python3"
APPLICATION: Final = "usr/lib/fairlead"

_NEVER: Final = ("__pycache__", "test", "tests", "_test*")
_NOT_OF_PYTHON: Final = (
    *("config-*", "_sysconfigdata*", "site-packages", "dist-packages", "ensurepip", "venv", "distutils"),
    *("idlelib", "lib2to3", "pydoc*", "unittest", "doctest", "pdb", "_pyrepl", "readline", "__phello__"),
    *("tkinter", "_tkinter", "turtle*", "curses", "_curses*", "dbm", "_dbm", "_gdbm", "sqlite3", "_sqlite3"),
    *("multiprocessing", "_multiprocessing", "wsgiref", "xml", "xmlrpc", "pyexpat", "_elementtree"),
    *("_bz2", "_lzma", "_zstd", "_uuid", "_crypt", "spwd", "nis", "ossaudiodev", "audioop", "_lsprof"),
    *("_codecs_*", "_multibytecodec", "_pydecimal", "_pydatetime", "_ctypes_test", "xx*", "_xx*"),
)
_NOT_OF_PACKAGES: Final = (
    *("bin", "plugin", "testing", "test_utils", "pytest_plugin"),
    *("distutils", "f2py", "_pyinstaller"),  # numpy's build tools
    "_frozenlist",  # the only module that needs the C++ library, 2 MB; frozenlist falls back to pure Python
)
_KEPT: Final = ("anyio/abc/_testing.py", "anyio/_core/_testing.py")  # anyio does not start without it
_PAGE: Final = (".html", ".js", ".css", ".svg")
"""The files of the dashboard's page."""
_COMMAND: Final = f"""#!/{PROGRAM} -IS
import sys

sys.path.append("/{APPLICATION}")
from fairlead.cli.main import run

run()
"""
_TEXTS: Final = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nfairlead:x:{USER}:{USER}:fairlead:/:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nfairlead:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "usr/bin/fairlead": _COMMAND,
}
_FOLDERS: Final = ("dev", "proc", "run", "sys", "tmp", "var/lib")


def assemble(root: Path, recipe: Recipe, python: Python, from_source: Sequence[str] = ()) -> None:
    """Fill an empty folder with the root file system; equal inputs give equal bytes, dates and modes."""
    packages = ensure_packages(recipe.lock, python, from_source, pure=recipe.pure)
    files = standard_library(python, recipe.standard) | application(recipe, packages)
    modules = [path for path in files.values() if path.suffix == ".so"]
    _write(root, {PROGRAM: python.program, **files, **closure(python.program, modules, python.root)})
    compile_modules(root, (python.standard, APPLICATION), python)
    _set_modes_and_dates(root, int(os.environ.get("SOURCE_DATE_EPOCH") or 0))


def standard_library(python: Python, needed: Sequence[str] = ()) -> dict[str, Path]:
    """Return the files of the standard library that the image gets, by path in the image."""
    without = [name for name in _NOT_OF_PYTHON if name not in needed]
    return _tree(python.modules, python.standard, (".py", ".so", ".txt"), without)


def application(recipe: Recipe, packages: Path) -> dict[str, Path]:
    """Return fairlead and its packages, with their licences, by their paths in the image."""
    names = (name if name.endswith(".py") else f"{name}/" for name in recipe.without)
    unwanted = tuple(f"{APPLICATION}/fairlead/{name}" for name in names)
    own = _tree(HOUSE / "src" / "fairlead", f"{APPLICATION}/fairlead", (".py", ".toml", *_PAGE))
    return {
        **_tree(packages, APPLICATION, (".py", ".so"), _NOT_OF_PACKAGES),
        **{f"{APPLICATION}/{path.relative_to(packages)}": path for path in _licences_and_metadata(packages)},
        **{name: path for name, path in own.items() if not name.startswith(unwanted)},
        f"{APPLICATION}/fairlead/LICENSE": HOUSE / "LICENSE",
    }


def _licences_and_metadata(packages: Path) -> Iterable[Path]:
    """Return the licences, and the metadata by which scanners identify packages."""
    for folder in packages.glob("*.dist-info"):
        yield folder / "METADATA"
        yield from (path for path in folder.rglob("*") if path.is_file() and "LICEN" in path.name.upper())


def _tree(folder: Path, to: str, kinds: Sequence[str], without: Sequence[str] = ()) -> dict[str, Path]:
    """Return the files with some suffixes below a folder, without excluded names in their path."""
    files = {}
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        parts = (
            inside.parts[:-1] if inside.name == "tests.py" else inside.parts
        )  # jinja2 has a module so called
        names = [part.partition(".")[0] for part in parts]
        unwanted = any(fnmatchcase(name, pattern) for name in names for pattern in (*_NEVER, *without))
        unwanted = unwanted and str(inside) not in _KEPT
        if path.suffix in kinds and not unwanted and path.is_file():
            files[f"{to}/{inside}"] = path
    return files


def _write(root: Path, files: Mapping[str, Path]) -> None:
    for name in _FOLDERS:
        (root / name).mkdir(parents=True)
    readers: dict[str, Callable[[], bytes]] = {name: path.read_bytes for name, path in files.items()}
    readers |= {name: text.encode for name, text in _TEXTS.items()}
    for name, read in readers.items():
        data = read()
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(elf.slim(data) if elf.is_elf(data) else data)


def compile_modules(root: Path, folders: Iterable[str], python: Python) -> None:
    """Replace every module by its compiled form.

    A compiler's output depends slightly on its other contents in memory: so a fresh process compiles one file
    after the other, without the user's settings.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    options = ["-q", "-b", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/"]
    paths = [str(root / folder) for folder in folders]
    done = subprocess.run(  # noqa: S603  # no shell; every argument is ours
        [*python.compiler, "-S", "-m", "compileall", *options, *paths],
        capture_output=True,
        check=False,
        env={**env, **python.environ, "PYTHONHASHSEED": "0"},
        text=True,
    )
    if done.returncode:
        raise UserError(f"some modules cannot be compiled:\n{(done.stdout or done.stderr).strip()}")
    for folder in folders:
        for path in (root / folder).rglob("*.py"):
            path.unlink()


def _set_modes_and_dates(root: Path, date: int) -> None:
    """Set the mode and date of every file: only root may write, except below /tmp."""
    for path in sorted(root.rglob("*"), reverse=True):
        executable = path.is_dir() or path.parent == root / "usr" / "bin" or path.name.startswith("ld-")
        path.chmod(0o755 if executable else 0o644)
        os.utime(path, (date, date))
    (root / "tmp").chmod(0o1777)
    root.chmod(0o755)
    os.utime(root, (date, date))
