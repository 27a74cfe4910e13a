"""Serving options: what they import, and the real program with TLS and a token."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.errors import SettingsError
from fairlead.serve.agent.loop import serving_options
from fairlead.serve.web.httpd import ServingOptions
from fairlead.settings import TlsFiles
from fairlead.settings.agent import AgentSettings
from tests.cluster.loopback import Authority, Pair
from tests.serve.web.served import PATIENCE, ask_tls, mount, trusting

HOME = Authority("home")
PROGRAM = [sys.executable, "-c", "from fairlead.cli.main import run; run()", "serve", "agent"]
COSTLY = ("ssl", "_ssl", "hmac", "hashlib", "_hashlib")


def silent(_: str) -> None:
    """Drop a log line."""


def test_without_tls_and_token_the_defaults_are_used() -> None:
    assert serving_options(AgentSettings(), silent) == ServingOptions()


def test_openssl_is_loaded_only_where_it_is_needed() -> None:
    code = (
        "import sys, fairlead.serve.agent.loop as loop, fairlead.settings.agent as settings\n"
        "loop.serving_options(settings.agent_settings(), print)\n"
        f"print([name for name in {COSTLY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unusable_pair_is_an_error_before_the_port_is_opened(tmp_path: Path) -> None:
    files = mount(tmp_path, "..1", Pair(b"x", b"y"))
    with pytest.raises(SettingsError, match="cannot be used"):
        serving_options(AgentSettings(tls=files), silent)


def test_an_empty_token_is_logged_at_the_start(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "token").touch()
    serving_options(AgentSettings(token_file=str(tmp_path / "token")), lines.append)
    assert "is empty" in lines[0]


def options(files: TlsFiles, token: Path) -> list[str]:
    """Return the command line for TLS and a token on every interface."""
    tls = ["--tls-cert", files.cert, "--tls-key", files.key]
    return ["--listen", ":0", *tls, "--token-file", str(token), "--no-nvml", "--no-uevents"]


def get(path: str, token: str = "") -> bytes:
    line = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\n{line}\r\n".encode()


def test_the_program_requires_the_token_and_loads_new_secrets(tmp_path: Path) -> None:
    token, how = tmp_path / "token", trusting(HOME)
    token.write_text("first\n")
    command = [*PROGRAM, *options(mount(tmp_path, "..1", HOME.leaf("agent")), token)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            line = process.stderr.readline()
            found = re.search(r"listening on https://\S*:([0-9]+)/metrics", line)
            assert found, line
            port = int(found[1])
            assert b"fairlead_build_info" in ask_tls(port, how, get("/metrics", "first"))
            assert ask_tls(port, how, get("/metrics")).startswith(b"HTTP/1.1 401 ")
            assert ask_tls(port, how, get("/healthz")).endswith(b"alive\n")
            token.unlink()
            token.write_text("second\n")
            mount(tmp_path, "..2", HOME.leaf("agent"))
            assert ask_tls(port, how, get("/metrics", "first")).startswith(b"HTTP/1.1 401 ")
            assert b"fairlead_build_info" in ask_tls(port, how, get("/metrics", "second"))
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def test_the_program_refuses_a_token_without_tls(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    command = [*PROGRAM, "--listen", ":0", "--token-file", str(tmp_path / "token")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert "--tls-cert" in done.stderr
    assert "Traceback" not in done.stderr
