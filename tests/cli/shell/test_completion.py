"""Completion: the candidates that a shell gets, and real shells that complete by them."""

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.catalog import load
from fairlead.catalog.load import device_ids
from fairlead.cli.main import COMMANDS
from fairlead.cli.shell.completion import join_equals
from fairlead.zoo import PACK
from tests.cli.examples import Run
from tests.cli.local.records import ledger_at, running


def complete(run: Run, *words: str, shell: str = "bash") -> tuple[str, list[str]]:
    code, out, err = run("completion", "words", "--shell", shell, "--", *words)
    assert (code, err) == (0, "")
    kind, *candidates = out.splitlines()
    return kind, candidates


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("det",), ["detect"]),
        (("catalog", "s"), ["show"]),
        (("detect", "-o", "w"), ["wide"]),
        (("detect", "--output=w"), ["--output=wide"]),
        (("detect", "--output", "=", "w"), ["wide"]),
        (("detect", "--col"), ["--color"]),
        (("detect", "-v", "--verb"), []),
        (("detect", "--catalog", "x", "--cata"), ["--catalog"]),
        (("catalog", "show", "coral-u"), ["coral-usb"]),
        (("estimate", "m.onnx", "--on", "a100,coral-u"), ["a100,coral-usb"]),
        (("catalog", "list", "--kind", "t"), ["tpu"]),
        (("catalog", "list", "--sort-by", "me"), ["memory"]),
        (("simulate", "--queue", "f"), ["fifo"]),
        (("bench", "predict", "--protocol", "n"), ["new-model", "new-device", "nas"]),
        (("schedule", "--policy", "fast"), ["fastest"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("lab", "kubectl", "get", ""), []),
        (("explain", "--", "--dec"), []),
        (("nonsense", ""), []),
        (("profiles", "show", ""), []),
    ],
)
def test_completions_of_the_next_word(run: Run, words: tuple[str, ...], expected: list[str]) -> None:
    assert complete(run, *words) == ("words", expected)


def test_jobs_are_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_STATE", str(tmp_path / "state"))
    assert complete(run, "cancel", "") == ("words", [])
    assert not (tmp_path / "state").exists()
    ledger = ledger_at(tmp_path / "state")
    running(ledger, name="train")
    running(ledger, name="embed")
    assert complete(run, "cancel", "")[1] == ["2", "1", "embed", "train"]
    assert complete(run, "logs", "tr")[1] == ["train"]
    assert complete(run, "run", "--after", "1,e")[1] == ["1,embed"]


def test_every_command_is_offered(run: Run) -> None:
    assert complete(run, "")[1] == list(COMMANDS)
    assert set(PACK) <= set(complete(run, "calibrate", "--models", "")[1])


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("analyze", ""), "files"),
        (("detect", "--root", ""), "folders"),
        (("schedule", "--workloads", "a.yaml", "b"), "files"),
        (("detect", "--catalog=x"), "files"),
    ],
)
def test_files_are_completed_by_the_shell(run: Run, words: tuple[str, ...], kind: str) -> None:
    assert complete(run, *words) == (kind, [])


def test_zsh_and_fish_show_the_help_of_an_option(run: Run) -> None:
    assert complete(run, "detect", "--col", shell="zsh")[1] == [
        "--color:auto: on a terminal, unless NO_COLOR is set"
    ]
    assert complete(run, "detect", "--col", shell="fish")[1] == [
        "--color\tauto: on a terminal, unless NO_COLOR is set"
    ]


def test_devices_are_named_without_reading_their_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text('schema = 1\n[[device]]\nid = "mine"\n')
    assert device_ids() == sorted(load().devices)
    monkeypatch.setenv("FAIRLEAD_CATALOG", str(tmp_path))
    assert "mine" in device_ids()


def test_an_unreadable_catalog_is_no_error_during_completion(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_CATALOG", "/nowhere.toml")
    assert complete(run, "catalog", "show", "") == ("words", [])


def test_bash_splits_words_at_an_equals_sign() -> None:
    assert join_equals(["detect", "--color", "=", "a"]) == (["detect", "--color=a"], "--color=")
    assert join_equals(["detect", "--color", "="]) == (["detect", "--color="], "--color=")
    assert join_equals(["detect", "--color", "=", "auto", "-"]) == (["detect", "--color=auto", "-"], "")


BASH = """
source <("$FAIRLEAD" completion bash)
compopt() { KIND="$*"; }
ask() {
    COMP_WORDS=("$FAIRLEAD" "$@"); COMP_CWORD=$#; KIND=
    _fairlead
    printf '%s|' "$KIND" "${COMPREPLY[@]}"; echo
}
complete -p fairlead
ask det
ask catalog show coral-u
ask detect --color = ne
ask analyze ''
ask detect --root ''
"""


def test_bash_completes(tmp_path: Path) -> None:
    program = os.path.join(os.path.dirname(sys.executable), "fairlead")
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH],
        env={**os.environ, "FAIRLEAD": program},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "complete -F _fairlead fairlead",
        "|detect|",
        "|coral-usb|",
        "|never|",
        "-o default|",
        "-o dirnames|",
    ]


def test_bash_completes_at_a_prompt(tmp_path: Path) -> None:
    """Press Tab in an interactive bash; the output of the completed command proves the completion."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    terminal, theirs = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as bash:
        os.close(theirs)
        os.write(terminal, b"source <(fairlead completion bash)\nfairlead comp\tba\t | tail -n 1; exit\n")
        shown = _until_end(terminal)
        bash.kill()  # if it hangs, the assertion below fails
    os.close(terminal)
    assert any(line.endswith("complete -F _fairlead fairlead") for line in shown.splitlines())


def _until_end(terminal: int) -> str:
    shown = b""
    while select.select([terminal], [], [], 120)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        shown += data
    return shown.decode().replace("\r", "")


ZSH = """
compdef() { print -- "compdef $*"; }
_describe() { print -l -- "${(@P)2}"; }
_files() { print -- "files $*"; }
source <("$FAIRLEAD" completion zsh)
ask() { words=("$FAIRLEAD" "$@"); CURRENT=$#words; _fairlead; }
ask det
ask detect --color=ne
ask analyze ''
ask detect --root ''
"""
FISH = """
$FAIRLEAD completion fish | source
complete --do-complete 'fairlead det'
complete --do-complete 'fairlead detect --color=ne'
complete --do-complete 'fairlead catalog show coral-u'
"""


def _shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_zsh_completes() -> None:
    program = os.path.join(os.path.dirname(sys.executable), "fairlead")
    done = subprocess.run(
        [_shell("zsh"), "-f", "-c", ZSH],
        env={**os.environ, "FAIRLEAD": program},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "compdef _fairlead fairlead",
        "detect:show every accelerator of this machine",
        "--color=never",
        "files ",
        "files -/",
    ]


def test_fish_completes(tmp_path: Path) -> None:
    folder = os.path.dirname(sys.executable)
    done = subprocess.run(
        [_shell("fish"), "--no-config", "-c", FISH],
        env={
            **os.environ,
            "FAIRLEAD": os.path.join(folder, "fairlead"),
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "detect\tshow every accelerator of this machine",
        "--color=never",
        "coral-usb",
    ]
