"""The metrics of a store: on an address of their own, with what its clients did."""

import socket
import urllib.request
from pathlib import Path

import pytest

from fairlead.errors import UserError
from fairlead.settings import Address
from fairlead.store.settings import StoreFiles
from fairlead.units import Bytes
from tests.store.stores import Store, received_of, store


def page_of(served: Store) -> dict[str, float]:
    """Return the metrics by name and labels."""
    (line,) = [line for line in served.said if line.startswith("metrics on ")]
    with urllib.request.urlopen(line.removeprefix("metrics on "), timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = answer.read().decode().splitlines()
    rows = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name.removeprefix("fairlead_store_"): float(value) for name, _, value in rows}


def test_requests_bytes_and_refusals_are_counted(tmp_path: Path) -> None:
    frozen = tmp_path / "frozen"
    files = StoreFiles(freeze=str(frozen))
    with store(tmp_path, files, quota=Bytes(1000), metrics=Address("127.0.0.1", 0)) as served:
        served.ask("PUT", "/a", b"a" * 600)
        served.ask("PUT", "/a", iter([b"a" * 300, b"a" * 100]))
        assert len(served.ask("GET", "/a").body) == 400
        served.ask("GET", "/none")
        served.ask("GET", "/a", token="wrong")
        served.ask("PUT", "/b", b"b" * 700)
        served.ask("PUT", "/a", b"c", If_None_Match="*")
        served.ask("BREW", "/a")
        frozen.write_text("it moves")
        served.ask("PUT", "/a", b"c")
        page = page_of(served)
        assert page['requests_total{method="PUT",code="201"}'] == 1
        assert page['requests_total{method="PUT",code="204"}'] == 1
        assert page['requests_total{method="GET",code="200"}'] == 1
        assert page['requests_total{method="other",code="405"}'] == 1
        assert page["received_bytes_total"] >= 1000
        refused = {name: value for name, value in page.items() if name.startswith("refused_total")}
        reasons = ("condition", "credential", "frozen-or-busy", "method", "missing", "no-room")
        assert refused == {f'refused_total{{reason="{reason}"}}': 1 for reason in reasons}
        assert (page["used_bytes"], page["available_bytes"], page["quota_bytes"]) == (400, 600, 1000)
        assert page["frozen"] == 1
        with served.connection() as client:
            client.sendall(served.head("OPTIONS", "/"))
            assert received_of(client)
            assert page_of(served)["open_connections"] == 1


def test_sent_bytes_are_those_that_left(tmp_path: Path) -> None:
    with store(tmp_path, metrics=Address("127.0.0.1", 0)) as served:
        served.ask("PUT", "/a", b"a" * 5000)
        before = page_of(served)["sent_bytes_total"]
        served.ask("GET", "/a", Range="bytes=0-999")
        served.ask("HEAD", "/a")
        assert page_of(served)["sent_bytes_total"] - before == 1000
        assert "quota_bytes" not in page_of(served)


def test_a_head_that_cannot_be_understood_counts_as_well(tmp_path: Path) -> None:
    with store(tmp_path, metrics=Address("127.0.0.1", 0)) as served:
        with served.connection() as client:
            client.sendall(b"PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")
            assert b"400" in received_of(client)
        assert page_of(served)['refused_total{reason="malformed"}'] == 1


def test_without_the_option_there_is_no_page(tmp_path: Path) -> None:
    with store(tmp_path) as served:
        assert [line for line in served.said if "metrics" in line] == []


def test_an_address_in_use_ends_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(UserError, match="cannot listen"), store(tmp_path, metrics=address):
            pass
