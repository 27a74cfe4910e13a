"""The C compiler: found and tried; without one a node lab reports what will not run."""

from pathlib import Path

import pytest

from fairlead.errors import LabError
from fairlead.lab.build import compiler
from fairlead.lab.build.cache import BuildCache


def tool(folder: Path, name: str, text: str) -> dict[str, str]:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}"}


def test_the_compiler_is_the_one_that_cc_names_or_the_first_on_path(tmp_path: Path) -> None:
    environ = tool(tmp_path, "cc", "#!/bin/sh\n")
    assert compiler.find(environ) == "cc"
    assert compiler.find({**environ, "CC": "cc -m64"}) == "cc -m64"
    assert compiler.find({**environ, "CC": "icc"}) is None
    assert compiler.find({"PATH": ""}) is None


def test_a_compiler_that_cannot_link_is_unusable(tmp_path: Path) -> None:
    assert compiler.obstacle({"PATH": ""}) == "no C compiler on this machine"
    broken = tool(tmp_path, "gcc", "#!/bin/sh\necho 'cannot find -lc' >&2\nexit 1\n")
    assert compiler.obstacle(broken) == "the C compiler gcc does not work: cannot find -lc"
    assert compiler.obstacle(tool(tmp_path, "gcc", "#!/bin/sh\n")) == ""


def test_without_a_compiler_nothing_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="libseccomp is written in C") as caught:
        compiler.environment("libseccomp", tmp_path, BuildCache(tmp_path), {"PATH": ""}, lambda: None)
    assert "apt-get install gcc" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
