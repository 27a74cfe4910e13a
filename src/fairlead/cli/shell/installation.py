"""How fairlead was installed, and the command that adds an extra to this installation."""

import json
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from urllib.parse import unquote, urlsplit

import fairlead


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of fairlead, as far as its files describe it."""

    python: str
    """The interpreter that runs fairlead."""
    pip: str = ""
    """The command of the environment's pip; empty if there is none."""
    installer: str = ""
    """The program that installed fairlead, from its INSTALLER file: pip, uv."""
    origin: str = ""
    """The URL of the file that fairlead was installed from; empty if it came from an index."""
    checkout: str = ""
    """The folder of the sources that run."""
    makes: bool = False
    """`make setup` in that folder fills the running environment."""
    tool: str = ""
    """pipx or uv, if one of them keeps an environment for fairlead alone."""
    managed: bool = False
    """The environment belongs to the operating system (PEP 668)."""

    @classmethod
    def here(cls) -> "Installation":
        """Inspect the running environment."""
        installed = _distribution()
        source = _source(installed)
        checkout = _checkout(source)
        prefix = Path(sys.prefix).resolve()
        return cls(
            python=sys.executable,
            pip=_pip(),
            installer=((installed.read_text("INSTALLER") or "") if installed else "").strip(),
            origin="" if checkout else str(source.get("url", "")),
            checkout=checkout,
            makes=bool(checkout) and prefix == Path(checkout, ".venv").resolve(),
            tool=_tool(prefix),
            managed=sys.prefix == sys.base_prefix
            and Path(os.__file__).with_name("EXTERNALLY-MANAGED").is_file(),
        )

    def advice(self, extras: Iterable[str]) -> str:
        """Return the command that adds extras, or how to get an environment that has them."""
        named = f"fairlead[{','.join(extras)}]"
        if self.makes:
            return f"make -C {quote(self.checkout)} setup"
        if self.tool:
            whole = f"{named} @ {self.origin}" if self.origin else named
            return f"{'pipx' if self.tool == 'pipx' else 'uv tool'} install --force '{whole}'"
        what = f"-e '{named.replace('fairlead', self.checkout, 1)}'" if self.checkout else f"'{named}'"
        if self.managed:
            return (
                "this Python belongs to the operating system; use an environment of your own: "
                f"python3 -m venv ~/fairlead && ~/fairlead/bin/pip install {what}"
            )
        if self.pip:
            return f"{self.pip} install {what}"
        if self.installer in ("pip", "uv"):
            command = "uv pip install --python" if self.installer == "uv" else "pip --python"
            verb = " install" if self.installer == "pip" else ""
            return f"{command} {quote(self.python)}{verb} {what}"
        return (
            f"this environment has no pip, as in a container image, which holds only what its own program "
            f"needs; run the command in an environment with the extra: pip install {what}"
        )


def _distribution() -> Distribution | None:
    try:
        return distribution("fairlead")
    except PackageNotFoundError:
        return None


def _source(installed: Distribution | None) -> dict[str, object]:
    """Return the record (PEP 610) of the file or folder that fairlead was installed from."""
    try:
        source = json.loads((installed.read_text("direct_url.json") if installed else None) or "{}")
    except ValueError:
        return {}
    return source if isinstance(source, dict) else {}


def _checkout(source: dict[str, object]) -> str:
    """Return the checkout whose sources run: of an editable installation, or on PYTHONPATH."""
    place = Path(fairlead.__file__).parents[2]
    if (place / "pyproject.toml").is_file():
        return str(place)
    about = source.get("dir_info")
    if isinstance(about, dict) and about.get("editable"):
        return unquote(urlsplit(str(source.get("url", ""))).path)
    return ""


def _tool(prefix: Path) -> str:
    if (prefix / "pipx_metadata.json").is_file():
        return "pipx"
    return "uv" if (prefix / "uv-receipt.toml").is_file() else ""


def _pip() -> str:
    """Return the shortest command that runs the pip of this environment and no other."""
    if find_spec("pip") is None:
        return ""
    near, on_path = os.path.join(os.path.dirname(sys.executable), "pip"), shutil.which("pip")
    return "pip" if on_path and os.path.abspath(on_path) == near else f"{quote(sys.executable)} -m pip"
