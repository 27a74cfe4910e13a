"""Who may use a store, and what of the machine it reaches: credentials, the jail, the quota, the freeze."""

import base64
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.errors import SettingsError
from fairlead.settings import Address
from fairlead.store.freeze import WriteFreeze
from fairlead.store.program import check
from fairlead.store.refusal import RefusedError
from fairlead.store.settings import StoreFiles, StoreSettings
from fairlead.units import Bytes
from tests.store.stores import TOKEN, Store, store


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with a folder, a file, and a secret beside its root, none of which a test may change."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "secret").write_text("secret")
    with store(folder) as served:
        served.ask("MKCOL", "/a")
        served.ask("PUT", "/mine", b"x")
        yield served
        assert served.files() == {"mine": b"x"}
        assert (folder / "secret").read_text() == "secret"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Token {TOKEN}",
        "Basic !!!",
        f"Basic {base64.b64encode(TOKEN.encode()).decode()}",
        f"Basic {base64.b64encode(b'x:' + TOKEN.encode() + b' ').decode()}",
    ],
)
def test_a_request_without_the_token_is_refused(shared: Store, header: str) -> None:
    for method in ("GET", "PUT", "PROPFIND", "OPTIONS", "LOCK", "DELETE"):
        refused = shared.ask(method, "/mine", b"y", token="", Authorization=header)
        assert refused.status == 401
        assert "Basic" in refused.headers["WWW-Authenticate"]


def test_any_user_has_the_token_as_password(tmp_path: Path) -> None:
    with store(tmp_path) as served:
        for user in ("", "anybody", "jörg"):
            secret = base64.b64encode(f"{user}:{TOKEN}".encode()).decode()
            assert served.ask("PUT", "/x", b"x", token="", Authorization=f"Basic {secret}").status in (
                201,
                204,
            )


def test_tokens_are_rotated_in_their_file(tmp_path: Path) -> None:
    with store(tmp_path) as served:
        assert served.ask("PUT", "/x", b"x", token="next").status == 401
        (tmp_path / "token").write_text(f"{TOKEN}\nnext\n")
        assert [served.ask("PUT", "/x", b"x", token=each).status for each in (TOKEN, "next")] == [201, 204]
        (tmp_path / "token").write_text("next")
        assert served.ask("PUT", "/x", b"x", token="next").status == 204
        assert served.ask("PUT", "/x", b"x").status == 401
        # A broken file is reported, and changes nothing.
        (tmp_path / "token").write_text("\n")
        assert served.ask("PUT", "/x", b"x", token="next").status == 204
        assert "holds no token" in served.said[-1]


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/%2e%2e/secret",
        "/a/..%2f..%2fsecret",
        "/a/%2e%2e/%2e%2e/secret",
        "/..%5csecret",
        "/%2e%2e%2fsecret",
        "/.%00./secret",
        "/%ff",
        "//../secret",
        "/./../secret",
        "/a/../../secret",
    ],
)
def test_no_path_leads_out(shared: Store, path: str) -> None:
    for method in ("GET", "PUT", "DELETE", "PROPFIND", "MKCOL"):
        assert shared.ask(method, path, b"" if method == "PUT" else None, Depth="0").status == 400
    for method in ("COPY", "MOVE"):
        assert shared.ask(method, "/mine", Destination=f"{shared.url}{path[1:]}").status == 400


def test_no_link_leads_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    with store(tmp_path) as served:
        (served.root / "folder").symlink_to(outside)
        (served.root / "file").symlink_to(outside / "secret")
        (served.root / "inner").symlink_to("real")
        (served.root / "own").symlink_to(".fairlead")
        os.mkfifo(served.root / "pipe")
        (served.root / "real").write_text("real")
        assert served.ask("GET", "/file").status == 403
        assert served.ask("GET", "/folder/secret").status == 403
        assert served.ask("PUT", "/folder/new", b"x").status == 403
        assert served.ask("DELETE", "/folder/secret").status == 403
        assert served.ask("MKCOL", "/folder/new").status == 403
        assert served.ask("COPY", "/real", Destination=f"{served.url}folder/new").status == 403
        assert served.ask("COPY", "/folder/secret", Destination=f"{served.url}new").status == 403
        assert served.ask("GET", "/pipe").status == 404
        assert served.ask("GET", "/inner").body == b"real"
        assert served.ask("GET", "/own/lock").status == 403
        listed = served.ask("PROPFIND", "/", Depth="1").body
        assert [each in listed for each in (b"/folder", b"/file", b"/pipe", b"/own", b"/inner")] == [
            False, False, False, False, True,
        ]  # fmt: skip
    assert os.listdir(outside) == ["secret"]


@pytest.mark.parametrize("path", ["/.fairlead", "/.fairlead/lock", "/.fairlead/staging/x"])
def test_the_stores_own_folder_is_not_served(shared: Store, path: str) -> None:
    for method in ("GET", "PUT", "DELETE", "PROPFIND", "MKCOL", "LOCK"):
        assert shared.ask(method, path, b"" if method == "PUT" else None).status == 404
    for method in ("COPY", "MOVE"):
        assert shared.ask(method, "/mine", Destination=f"{shared.url}{path[1:]}").status == 403


def test_links_to_a_further_folder_are_followed_and_removed_with_their_files(tmp_path: Path) -> None:
    root, slow = tmp_path / "root", tmp_path / "slow"
    (root / "tree").mkdir(parents=True)
    slow.mkdir()
    for name in ("read", "replaced", "removed", "tree/deep"):
        (slow / name.rpartition("/")[2]).write_bytes(b"s" * 100)
        (root / name).symlink_to(slow / name.rpartition("/")[2])
    with store(tmp_path, StoreFiles(also=(str(slow),)), quota=Bytes(1000)) as served:
        await_quota(served, 400, 600)
        assert served.ask("GET", "/read").body == b"s" * 100
        assert served.ask("PUT", "/replaced", b"fast").status == 204
        assert not (root / "replaced").is_symlink()
        assert served.ask("DELETE", "/removed").status == 204
        assert served.ask("DELETE", "/tree").status == 204
        assert os.listdir(slow) == ["read"]
        await_quota(served, 104, 896)


def quota_of(served: Store) -> tuple[int, int]:
    """Return the properties of the quota."""
    names = "<D:quota-used-bytes/><D:quota-available-bytes/>"
    find = f'<D:propfind xmlns:D="DAV:"><D:prop>{names}</D:prop></D:propfind>'
    text = served.ask("PROPFIND", "/", find, Depth="0").body.decode()
    used, available = (text.split(f"{name}>")[1].split("<")[0] for name in ("used-bytes", "available-bytes"))
    return int(used), int(available)


def await_quota(served: Store, used: int, available: int) -> None:
    """Wait for these properties: a walk that goes on may count a new file twice until it has ended."""
    end = time.monotonic() + 60
    while quota_of(served) != (used, available):
        assert time.monotonic() < end, quota_of(served)


def test_a_body_of_unknown_length_is_counted_by_what_has_arrived(tmp_path: Path) -> None:
    with store(tmp_path, quota=Bytes(3 << 20)) as served:
        assert served.ask("PUT", "/a", b"a" * (5 << 19)).status == 201
        # Half a MiB is left: less than the step by which a reservation grows.
        assert served.ask("PUT", "/b", iter([b"b" * 200_000, b"b" * 200_000])).status == 201
        refused = served.ask("PUT", "/c", iter([b"c" * 100_000, b"c" * 100_000]))
        told = b"3021440 of 3145728 bytes are used, and 200000 bytes of an upload of unknown length"
        assert (refused.status, told in refused.body) == (507, True)
        # The room of the file that it replaces counts until its end.
        assert served.ask("PUT", "/a", iter([b"A" * (1 << 20)] * 2)).status == 204


def test_the_quota_is_enforced_and_shown(tmp_path: Path) -> None:
    with store(tmp_path, quota=Bytes(1000)) as served:
        assert served.ask("PUT", "/a", b"a" * 600).status == 201
        await_quota(served, 600, 400)
        refused = served.ask("PUT", "/b", b"b" * 500)
        assert (refused.status, b"600 of 1000 bytes are used" in refused.body) == (507, True)
        assert served.ask("PUT", "/b", iter([b"b" * 250, b"b" * 250])).status == 507
        assert served.ask("COPY", "/a", Destination=f"{served.url}b").status == 507
        assert served.files() == {"a": b"a" * 600}
        assert served.staged() == []
        # A file may be replaced by one that fits in its place, and what is removed makes room.
        assert served.ask("PUT", "/a", b"A" * 1000).status == 204
        await_quota(served, 1000, 0)
        assert served.ask("DELETE", "/a").status == 204
        assert served.ask("PUT", "/b", b"b" * 1000).status == 201
        # Another pod makes room: it is noticed before a request is refused.
        (served.root / "b").unlink()
        assert served.ask("PUT", "/c", b"c" * 700).status == 201
        # Another pod takes room as well.
        (served.root / "theirs").write_bytes(b"t" * 200)
        assert served.ask("PUT", "/d", b"d" * 301).status == 507
        await_quota(served, 900, 100)


def test_the_quota_of_a_file_is_read_again(tmp_path: Path) -> None:
    quota = tmp_path / "quota"
    quota.write_text("1Ki\n")
    with store(tmp_path, StoreFiles(quota=str(quota))) as served:
        assert served.ask("PUT", "/a", b"a" * 1500).status == 507
        quota.write_text("2Ki")
        assert served.ask("PUT", "/a", b"a" * 1500).status == 201
        await_quota(served, 1500, 548)
        quota.write_text("1Ki")
        await_quota(served, 1500, 0)


def test_a_freeze_refuses_writes_and_says_when_the_last_one_has_ended(tmp_path: Path) -> None:
    freeze = tmp_path / "freeze"
    with store(tmp_path, StoreFiles(freeze=str(freeze))) as served, served.connection() as slow:
        served.ask("PUT", "/a", b"a")
        slow.sendall(served.head("PUT", "/slow", "Content-Length: 10") + b"half")
        while not served.staged():
            pass
        freeze.write_text("moved to a larger volume\n")
        for method in ("PUT", "DELETE", "MKCOL", "PROPPATCH", "MOVE", "COPY", "LOCK"):
            refused = served.ask(method, "/a", b"" if method == "PUT" else None)
            assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
            assert b"moved to a larger volume" in refused.body
        assert served.ask("GET", "/a").body == b"a"
        assert not (tmp_path / "freeze.quiet").exists()
        # An upload that began before the freeze must not get its name in it.
        slow.sendall(b" of it")
        assert b" 503 " in slow.recv(1000).split(b"\n")[0]
        while not (tmp_path / "freeze.quiet").exists():
            threading.Event().wait(0.01)
        assert served.files() == {"a": b"a"}
        freeze.unlink()
        assert served.ask("PUT", "/b", b"b").status == 201


def test_quiet_is_for_one_reason_and_ends_with_the_freeze(tmp_path: Path) -> None:
    path, now = tmp_path / "missing" / "freeze", [100.0]
    path.parent.mkdir()
    freeze = WriteFreeze(str(path), lambda: now[0])

    def said() -> float | None:
        freeze.announce()
        return freeze.quiet_since

    assert said() is None
    with freeze.writing():
        path.write_text("first")
        assert said() is None, "a write is in progress"
    assert said() == 100.0
    now[0] = 101.0
    with pytest.raises(RefusedError), freeze.writing():
        pass
    assert said() == 100.0, "what is refused writes nothing"
    path.write_text("second")
    assert freeze.quiet_since is None, "it was quiet for another reason"
    assert said() == 101.0
    path.unlink()
    with freeze.writing():
        pass  # between two looks
    path.write_text("second")
    assert freeze.quiet_since is None
    now[0] = 102.0
    assert said() == 102.0


def test_accesses_are_traced(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    with store(tmp_path, StoreFiles(trace=str(trace))) as served:
        served.ask("PUT", "/a%2Cb", b"12345")
        served.ask("GET", "/a%2Cb", Range="bytes=1-2")
        served.ask("HEAD", "/a%2Cb")
        served.ask("GET", "/missing")
    head, *rows = trace.read_text().splitlines()
    assert head == "time,key,bytes,op"
    assert [row.split(",", 1)[1] for row in rows] == ['"a,b",5,write', '"a,b",5,read']


def test_rates_are_limited(tmp_path: Path) -> None:
    with store(tmp_path, rate=1.0) as served:
        answers = [served.ask("OPTIONS", "/") for _ in range(10)]
        assert {answer.status for answer in answers} == {200, 429}
        assert answers[-1].headers["Retry-After"] == "1"


def test_plain_http_stays_on_this_machine(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="plain HTTP would show the token"):
        check(StoreSettings(str(tmp_path), Address("", 0), "token"))


def test_a_folder_has_one_store(tmp_path: Path) -> None:
    with (
        store(tmp_path),
        pytest.raises(SettingsError, match="another store serves"),
        store(tmp_path, lock_wait=0.1),
    ):
        pass
