"""The images: what they contain, what they do not, and that they run without files from outside."""

import asyncio
import hashlib
import io
import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from deploy.image import archive, contents, elf, pythons
from deploy.image.recipes import RECIPES
from fairlead import __version__
from tests.cluster.loopback import Authority, serve_responses
from tests.images import (
    HOUSE,
    SCRIPT,
    agent_archive,
    dashboard_archive,
    operator_archive,
    pipeline_archive,
    scheduler_archive,
    store_archive,
    unpack_image,
)

FORBIDDEN = {
    "a shell": ("sh", "bash", "dash", "ash", "busybox", "toybox"),
    "a package manager": ("pip", "ensurepip", "setuptools", "apt", "apt-get", "dpkg", "apk", "uv"),
    "a compiler": ("gcc", "cc", "ld", "as", "make", "distutils", "hatchling"),
    "a way to gain privileges": ("su", "sudo", "mount", "nsenter", "unshare", "chroot"),
    "a way to fetch things": ("curl", "wget", "git", "ssh"),
    "what only the lab needs": ("fairlead/lab", "go.mod", "cryptography", "yaml"),
    "tests and other people's windows": (
        "test",
        "tests",
        "idlelib",
        "tkinter",
        "test_utils.pyc",
        "__pycache__",
    ),
}
PYTHON = ("/usr/bin/python3", "-IS", "-c")
HERE = "import sys; sys.path.append('/usr/lib/fairlead')\n"


ARCHIVES: dict[str, Callable[[], Path]] = {
    "agent": agent_archive,
    "scheduler": scheduler_archive,
    "operator": operator_archive,
    "pipeline": pipeline_archive,
    "store": store_archive,
    "dashboard": dashboard_archive,
}
NEEDED = {"operator": {"cryptography"}, "pipeline": {"yaml"}, "store": {"yaml"}}
"""By image: what would be forbidden in the others."""
RUNS = {
    "agent": {"fairlead.cluster.client", "fairlead.detect", "fairlead.kubelet", "fairlead.serve.agent"},
    "scheduler": {"fairlead.cluster.client", "fairlead.schedule", "fairlead.serve.scheduler.program"},
    "operator": {"fairlead.authority", "fairlead.cluster.client", "fairlead.serve.operator.program"},
    "store": {"fairlead.store.program", "fairlead.tiering"},
    "dashboard": {"fairlead.serve.dashboard.cluster.source", "fairlead.serve.dashboard.program"},
    "pipeline": {"fairlead.pipeline.driver", "fairlead.pipeline.hosts.server", "fairlead.serve.web.thread"},
}
"""Some modules that each must have."""
OWN = {
    "agent": "grpclib.client, grpclib.server",
    "scheduler": "numpy.linalg",
    "operator": "cryptography.x509",
}
"""Libraries that only one of them has."""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An unpacked image."""

    recipe: str

    tags: list[str]
    config: dict[str, Any]
    packed: bytes
    members: dict[str, tarfile.TarInfo]
    root: Path

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program with only this root file system."""
        change = ["chroot"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot"]
        env = dict(variable.split("=", 1) for variable in self.config["config"]["Env"])
        path = {
            "PATH": os.environ["PATH"]
        }  # where chroot itself is found; the image's own is in the arguments
        return subprocess.run(
            [*change, self.root, *argv], capture_output=True, check=False, text=True, env=env | path
        )

    def ask(self, code: str) -> str:
        """Return the output of a few lines of Python inside the image."""
        done = self.run(*PYTHON, HERE + code)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session", params=ARCHIVES)
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BuiltImage:
    return unpack(request.param, tmp_path_factory.mktemp("image"))


def unpack(recipe: str, root: Path) -> BuiltImage:
    unpacked = unpack_image(ARCHIVES[recipe](), root)
    return BuiltImage(recipe, unpacked.tags, unpacked.about, unpacked.packed, unpacked.members, root)


@pytest.fixture
def inside(image: BuiltImage) -> BuiltImage:
    if os.geteuid() != 0 and subprocess.run(["unshare", "--map-root-user", "true"], check=False).returncode:
        pytest.skip("on this machine only root can change the root file system")
    return image


@pytest.fixture
def agent(inside: BuiltImage) -> BuiltImage:
    if inside.recipe != "agent":
        pytest.skip("only for the agent's image")
    return inside


def test_the_image_is_one_layer_that_runs_unprivileged(image: BuiltImage) -> None:
    assert image.tags == [RECIPES[image.recipe].tag]
    assert image.config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(image.packed).hexdigest()}"]
    assert image.config["config"]["User"] == "10001:10001"
    assert image.config["config"]["Labels"]["org.opencontainers.image.version"] == __version__


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_image_has_nothing_unneeded(image: BuiltImage, what: str) -> None:
    names = {part for name in image.members for part in Path(name).parts}
    folders = {"/".join(Path(name).parts[-2:]) for name in image.members}
    assert not (names | folders) & set(FORBIDDEN[what]) - NEEDED.get(image.recipe, set())


def test_only_tmp_is_writable_and_no_file_is_setuid(image: BuiltImage) -> None:
    assert {(member.uid, member.gid) for member in image.members.values()} == {(0, 0)}
    assert all(member.isfile() or member.isdir() for member in image.members.values())
    assert [name for name, member in image.members.items() if member.mode & 0o6000] == []
    assert [name for name, member in image.members.items() if member.mode & 0o022] == ["tmp"]


def test_an_unpacked_layer_packs_to_the_same_bytes(image: BuiltImage, tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(image.packed)) as layer:
        layer.extractall(tmp_path, filter="fully_trusted")
    assert archive.layer(tmp_path) == image.packed


def test_modules_compile_to_the_same_bytes(tmp_path: Path) -> None:
    compiled = []
    for name in ("one", "two"):
        shutil.copytree(HOUSE / "src" / "fairlead" / "catalog", tmp_path / name / "usr" / "catalog")
        contents.compile_modules(tmp_path / name, ["usr"], pythons.choose(""))
        compiled.append({path.name: path.read_bytes() for path in sorted((tmp_path / name).rglob("*.pyc"))})
    assert compiled[0]
    assert compiled[0] == compiled[1]
    assert not list(tmp_path.rglob("*.py"))


def test_the_command_works(inside: BuiltImage) -> None:
    assert inside.run("/usr/bin/fairlead", "--version").stdout == f"fairlead {__version__}\n"
    assert "warden" in inside.run("/usr/bin/fairlead", "--help").stdout


def test_the_agent_runs(agent: BuiltImage) -> None:
    page = agent.run("/usr/bin/fairlead", "serve", "agent", "--once").stdout
    assert "fairlead_" in page


def test_a_board_is_recognised(agent: BuiltImage) -> None:
    board = agent.root / "tmp" / "board"
    shutil.copytree(HOUSE / "tests" / "hosts" / "jetson-nano" / "root", board, symlinks=True)
    shown = agent.run("/usr/bin/fairlead", "detect", "--root", "/tmp/board")
    assert "jetson-nano" in shown.stdout, shown.stderr


def test_the_lab_is_reported_as_missing(inside: BuiltImage) -> None:
    done = inside.run("/usr/bin/fairlead", "lab", "status")
    assert done.returncode == 2
    first, hint = done.stderr.splitlines()
    assert first == "fairlead: lab needs fairlead.lab, which is not installed"
    assert "a container image, which holds only what its own program needs" in hint
    assert hint.endswith("pip install 'fairlead[lab]'")


def test_every_module_of_fairlead_can_be_imported(inside: BuiltImage) -> None:
    code = (
        "import importlib, pkgutil, fairlead\n"
        "for module in pkgutil.walk_packages(fairlead.__path__, 'fairlead.'):\n"
        "    importlib.import_module(module.name)\n"
        "    print(module.name)"
    )
    assert set(inside.ask(code).split()) >= RUNS[inside.recipe]


def test_no_image_has_modules_that_only_the_other_needs(image: BuiltImage) -> None:
    names = {name.partition(f"{contents.APPLICATION}/")[2] for name in image.members}
    only = {
        "agent": {"grpclib", "fairlead/warden", "fairlead/serve/agent"},
        "scheduler": {"fairlead/schedule", "fairlead/serve/scheduler"},
        "operator": {"cryptography", "fairlead/pipelineobjects"},
        "store": {"wsgidav", "fairlead/store"},
        "dashboard": {"starlette", "fairlead/dashboard", "fairlead/serve/dashboard"},
    }
    also = {"fairlead/schedule", "fairlead/pipelineobjects"} if image.recipe == "dashboard" else set()
    for recipe, own in only.items():
        assert names & own == (own if recipe == image.recipe else own & also)


def test_every_library_can_be_loaded(inside: BuiltImage) -> None:
    code = (
        "import ctypes, pathlib\n"
        "for path in pathlib.Path('/').glob('[lu]*/**/*.so*'):\n"
        "    ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)\n"
        "    print(path.name)"
    )
    loaded = inside.ask(code).split()
    # NVIDIA's management library, which a container's runtime mounts, is linked to these.
    assert {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"} <= set(loaded)


def test_host_names_can_be_resolved(inside: BuiltImage) -> None:
    code = (
        "import socket\n"
        "print(socket.getaddrinfo('127.0.0.1', 80, proto=socket.IPPROTO_TCP)[0][4])\n"
        "print(len('\\u00e9'.encode('idna')), sys.stdout.encoding)"
    )
    assert inside.ask(code) == "('127.0.0.1', 80)\n7 utf-8\n"


def test_tls_works_with_its_libraries(inside: BuiltImage, tmp_path: Path) -> None:
    if inside.recipe not in OWN:
        pytest.skip("an image without a client")
    authority = Authority()
    (inside.root / "tmp" / "ca.pem").write_bytes(authority.pem)
    code = (
        f"import aiohttp, asyncio, msgspec, ssl, {OWN[inside.recipe]}\n"
        "async def main(url):\n"
        "    trust = ssl.create_default_context(cafile='/tmp/ca.pem')\n"
        "    async with aiohttp.ClientSession() as session, session.get(url, ssl=trust) as answer:\n"
        "        print(msgspec.json.decode(await answer.read())['hello'])\n"
    )

    async def hello(_: web.BaseRequest) -> web.Response:
        return web.Response(text='{"hello": "image"}')

    async def run() -> str:
        async with serve_responses(hello, authority.server(tmp_path)) as seen:
            call = f"{code}asyncio.run(main({seen.config.server!r}))"
            return await asyncio.to_thread(inside.ask, call)

    assert asyncio.run(run()) == "image\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_runs_as_its_own_user(inside: BuiltImage) -> None:
    done = subprocess.run(
        [
            "chroot",
            "--userspec=10001:10001",
            inside.root,
            *PYTHON,
            "import os, pwd; print(pwd.getpwuid(os.getuid()))",
        ],
        capture_output=True,
        check=False,
        text=True,
    )
    assert "pw_name='fairlead'" in done.stdout, done.stderr


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_dockerfile_has_the_same_configuration(recipe: str) -> None:
    text = SCRIPT.with_name("Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    stage = lines[lines.index(["FROM", f"scratch AS {recipe}"]) + 1 :]
    end = next((number for number, (word, _) in enumerate(stage) if word == "FROM"), len(stage))
    wanted, last = archive.config(RECIPES[recipe]), dict(stage[:end])
    assert shlex.split(last["ENV"]) == wanted["Env"]
    assert dict(label.split("=", 1) for label in shlex.split(last["LABEL"])) == wanted["Labels"]
    assert last["USER"] == wanted["User"]
    assert last["WORKDIR"] == wanted["WorkingDir"]
    assert json.loads(last["ENTRYPOINT"]) == wanted["Entrypoint"]
    copied = [
        name for word, rest in lines if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]
    ]
    assert [name for name in copied if not list(HOUSE.glob(name))] == []


def test_a_users_packages_and_name_replace_those_of_the_release(tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("nothing-of-this-name==1 --hash=sha256:00\n")
    words = ["--for", "pipeline", "--packages", str(tmp_path / "none.txt"), "--root", str(tmp_path / "root")]
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, check=False, text=True)
    assert done.returncode == 2
    assert "the packages of none.txt cannot be installed" in done.stderr
    mine = replace(RECIPES["pipeline"], named="localhost/mine:1")
    archive.write_archive(tmp_path / "mine.tar", mine, b"", "amd64")
    with tarfile.open(tmp_path / "mine.tar") as made:
        manifest = json.load(made.extractfile("manifest.json") or io.BytesIO())
    assert manifest[0]["RepoTags"] == ["localhost/mine:1"]


@pytest.mark.parametrize("bits", [32, 64])
def test_slim_strips_what_is_not_loaded(bits: int) -> None:
    program = tiny(bits, b"/lib/ld.so\0")
    whole = program + b"symbols and sections"
    assert elf.loader(whole) == "/lib/ld.so"
    assert elf.slim(whole) == program
    assert elf.slim(program) == program
    assert not elf.is_elf(b"#!/bin/sh")


def tiny(bits: int, loader: bytes) -> bytes:
    """Return a program of one segment, which holds only the name of its loader."""
    sizes = {32: (52, 32), 64: (64, 56)}[bits]
    start = sum(sizes)
    head = b"\x7fELF" + bytes([bits // 32, 1, 1]) + bytes(9)
    form = {32: "<HHIIIIIHHHHHH", 64: "<HHIQQQIHHHHHH"}[bits]
    head += struct.pack(form, 2, 3, 1, 0, sizes[0], 0, 0, sizes[0], sizes[1], 1, 0, 0, 0)
    if bits == 32:
        return head + struct.pack("<8I", 3, start, 0, 0, len(loader), len(loader), 4, 1) + loader
    return head + struct.pack("<2I6Q", 3, 4, start, 0, 0, len(loader), len(loader), 1) + loader


def call(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *argv],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, **env},
    )


def test_a_failed_build_is_explained(tmp_path: Path) -> None:
    taken = call("--root", str(tmp_path))
    assert taken.returncode == 2
    assert str(tmp_path) in taken.stderr
    offline = call(
        "--archive",
        str(tmp_path / "x.tar"),
        XDG_CACHE_HOME=str(tmp_path),
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS="",
    )
    assert offline.returncode == 2
    assert "the first build for a Python needs pip and a package index" in offline.stderr
