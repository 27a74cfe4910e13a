"""The node's tools: fetched once, cached by version, with their libraries; apt is a small fake."""

import os
from pathlib import Path

import pytest

from fairlead.errors import LabError
from fairlead.lab.build.cache import BuildCache
from fairlead.lab.build.debian import PACKAGES, ensure_tools

# Prints what it would install, and creates the files that it is asked to download. A host without package
# lists knows no package until an update fills a folder of lists.
APT = """#!/bin/bash
echo "$*" >> {world}/calls
case "$*" in
  *update*) touch {world}/fresh ;;
  *--simulate*) [ -e {world}/lists ] || [ -e {world}/fresh ] || {{ echo no such package >&2; exit 100; }}
     version=$(cat {world}/version)
     for package in {packages} libnftnl11; do echo "Inst $package ($version Debian:12 [amd64])"; done ;;
  *download*) [ ! -e {world}/away ] || {{ echo "404  Not Found" >&2; exit 100; }}
     for word in "$@"; do case $word in Dir::*) ;; *=*) touch "${{word%%=*}}.deb" ;; esac; done ;;
esac
"""
DPKG = """#!/bin/bash
mkdir -p $3/usr/sbin $3/usr/lib/x86_64-linux-gnu/xtables
touch $3/usr/sbin/runc $3/usr/sbin/xtables-nft-multi $3/usr/lib/x86_64-linux-gnu/libnftnl.so.11
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name, text in (("apt-get", APT), ("dpkg", DPKG)):
        (tmp_path / name).write_text(text.format(world=tmp_path, packages=" ".join(PACKAGES)))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "version").write_text("1.0-1")
    (tmp_path / "lists").touch()
    (tmp_path / "calls").touch()
    return tmp_path


@pytest.fixture
def environ(host: Path) -> dict[str, str]:
    return {"PATH": f"{host}{os.pathsep}{os.environ['PATH']}", "HOME": str(host)}


def test_tools_are_fetched_once_and_found_on_their_path(host: Path, environ: dict[str, str]) -> None:
    tools = ensure_tools(environ=environ)
    calls = (host / "calls").read_text()
    assert ensure_tools(environ=environ) == tools
    assert (host / "calls").read_text() == calls
    assert tools.versions == dict.fromkeys([*PACKAGES, "libnftnl11"], "1.0-1")
    assert tools.runc.exists()
    variables = tools.environment({"PATH": "/bin"})
    assert variables["PATH"].split(":")[0] == str(tools.root / "links")
    assert variables["PATH"].endswith(":/bin")
    assert (tools.root / "links" / "ip6tables-restore").resolve() == tools.root / "usr/sbin/xtables-nft-multi"
    assert variables["LD_LIBRARY_PATH"] == str(tools.root / "usr/lib/x86_64-linux-gnu")
    assert variables["XTABLES_LIBDIR"] == str(tools.root / "usr/lib/x86_64-linux-gnu/xtables")


def test_other_packages_have_a_folder_of_their_own(host: Path, environ: dict[str, str]) -> None:
    tools, few = ensure_tools(environ=environ), ensure_tools(environ=environ, packages=("socat",))
    assert few.root != tools.root
    assert ensure_tools(environ=environ) == tools
    assert ensure_tools(environ=environ, packages=("socat",)) == few
    with pytest.raises(LabError, match="apt does not offer all of nonesuch"):
        ensure_tools(environ=environ, packages=("nonesuch",))


def test_a_refresh_keeps_versions_apart(host: Path, environ: dict[str, str]) -> None:
    old = ensure_tools(environ=environ)
    assert ensure_tools(environ=environ, refresh=True) == old
    (host / "version").write_text("1:2.0-1+b2")
    new = ensure_tools(environ=environ, refresh=True)
    assert (new.versions["runc"], new.root != old.root) == ("1:2.0-1+b2", True)


def test_a_host_without_package_lists_gets_lists_of_our_own(host: Path, environ: dict[str, str]) -> None:
    (host / "lists").unlink()
    assert ensure_tools(environ=environ).runc.exists()
    updates = [call for call in (host / "calls").read_text().splitlines() if call.startswith("update")]
    assert [f"Dir::State::Lists={host}" in call for call in updates] == [True]


def test_another_architecture_has_lists_and_a_folder_of_its_own(host: Path, environ: dict[str, str]) -> None:
    own = ensure_tools(environ=environ)
    (host / "calls").write_text("")
    other = ensure_tools(environ=environ, architecture="arm64")
    assert other.root != own.root
    calls = (host / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["update", "-o", "download"]
    for option in ("APT::Architecture=arm64", "Dir::State::status=/dev/null", "/apt-arm64 "):
        assert all(option in call for call in calls), option
    assert ensure_tools(environ=environ) == own
    assert ensure_tools(environ=environ, architecture="arm64") == other
    with pytest.raises(LabError, match="apt does not offer all of nonesuch for arm64") as caught:
        ensure_tools(environ=environ, architecture="arm64", packages=("nonesuch",))
    assert "apt's sources must offer arm64" in caught.value.hint


def test_a_failed_download_shows_the_output_of_apt(host: Path, environ: dict[str, str]) -> None:
    (host / "away").touch()
    with pytest.raises(LabError, match="404  Not Found") as caught:
        ensure_tools(environ=environ)
    assert "full log: " in caught.value.hint


def test_without_apt_the_error_names_the_remaining_profiles(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="apt-get is not on this machine") as caught:
        ensure_tools(cache=BuildCache(tmp_path), environ={"PATH": ""})
    assert "api and control" in caught.value.hint
