"""The API over a real socket: answers, tokens, hosts, origins, pages."""

from collections.abc import Iterator

import pytest

from fairlead.catalog import load
from fairlead.dashboard.sources.snapshot import SnapshotSource
from fairlead.dashboard.viewer import Viewer
from fairlead.serve.dashboard.access import Unavailable
from fairlead.serve.dashboard.gate import CSP
from tests.dashboard.samples import cluster
from tests.serve.dashboard.served import Served, served


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(SnapshotSource(cluster(12, 24), "cluster.json", load(), lambda: 1e9)) as running:
        yield running


def test_about_names_the_source_the_viewer_and_the_tables(server: Served) -> None:
    about = server.get("/api/v1/about").json
    assert about["source"] == {"kind": "snapshot", "name": "sample of 12 nodes", "taken": 1772366400.0}
    assert about["viewer"] == {"name": "ann", "namespaces": ["*"], "actions": []}
    assert about["tables"]["devices"]["rows"] == 48


def test_pages_of_a_table_are_the_whole_table(server: Served) -> None:
    found, after = [], ""
    while True:
        page = server.get(f"/api/v1/tables/devices?limit=7{after}").json
        found += [row["key"] for row in page["rows"]]
        if page["next"] is None:
            break
        after = f"&after={page['next'].replace('/', '%2F')}"
    assert found == sorted(found)
    assert len(set(found)) == page["total"] == 48


def test_key_may_hold_an_encoded_slash(server: Served) -> None:
    answer = server.get("/api/v1/workloads/vision%2Fhuge/why")
    assert (answer.status, answer.json["key"]) == (200, "vision/huge")
    assert server.get("/api/v1/devices/node-0000%2Ft4-0/series").json["times"] == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/tables/nothing", 404),
        ("/api/v1/tables/pipelines", 404),
        ("/api/v1/tables/nodes?limit=0", 400),
        ("/api/v1/tables/nodes?limit=5001", 400),
        ("/api/v1/tables/nodes?limit=1e3", 400),
        ("/api/v1/tables/nodes?limit=%C2%B2", 400),
        ("/api/v1/workloads/vision%2Fnothing/why", 404),
        ("/api/v1/models/resnet/devices", 404),
        ("/api/v1/pipelines/a%2Fb/frames/1", 404),
        ("/api/v1/events?tables=nodes,nothing", 400),
        ("/api/v1/nothing", 404),
        ("/assets/../../../app.py", 404),
        ("/%2e%2e/app.py", 404),
    ],
)
def test_faults_say_what_where_and_what_next(server: Served, path: str, status: int) -> None:
    answer = server.get(path)
    assert answer.status == status
    assert set(answer.json["error"]) == {"what", "where", "next"}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/api/v1/about", "/api/v1/tables/nodes", "/"])
def test_other_methods_are_refused(server: Served, method: str, path: str) -> None:
    answer = server.get(path, method)
    assert answer.status == 405
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("token", ["", "another", "ü", "x" * 20_000])
def test_token_is_required(server: Served, token: str) -> None:
    answer = server.get("/api/v1/about", token=token and token.encode().decode("latin-1"))
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "nodes" not in answer.body.decode()


def test_token_in_the_address_counts_for_nothing(server: Served) -> None:
    assert server.get("/api/v1/about?token=a-token-of-some-length", token="").status == 401


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "a b", ""])
def test_unknown_host_is_refused(server: Served, method: str, host: str) -> None:
    assert server.get("/api/v1/about", method, Host=host).status == 421
    assert server.get("/", method, Host=host).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:9"])
def test_loopback_has_many_names(server: Served, host: str) -> None:
    assert server.get("/api/v1/about", Host=host).status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://"])
def test_other_origin_is_refused(server: Served, method: str, origin: str) -> None:
    assert server.get("/api/v1/about", method, Origin=origin).status == 403


def test_own_origin_is_answered(server: Served) -> None:
    origin = f"http://127.0.0.1:{server.port}"
    assert server.get("/api/v1/about", Origin=origin).status == 200
    assert server.get("/api/v1/about", Sec_Fetch_Site="same-origin").status == 200
    assert server.get("/api/v1/about", Sec_Fetch_Site="cross-site").status == 403


@pytest.mark.parametrize("path", ["/", "/api/v1/about", "/nothing", "/healthz"])
def test_every_answer_has_the_security_headers(server: Served, path: str) -> None:
    headers = server.get(path).headers
    assert headers["content-security-policy"] == CSP
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


def test_page_and_probes_need_no_token(server: Served) -> None:
    for path in ("/", "/healthz", "/readyz"):
        assert server.get(path, token="").status == 200
    assert server.get("/readyz", token="", Host="10.0.0.7:8080").status == 200


def test_openapi_describes_every_table_and_resolves(server: Served) -> None:
    document = server.get("/api/v1/openapi.json").json
    assert document["openapi"].startswith("3.1")
    text = str(document)
    schemas = document["components"]["schemas"]
    for reference in set(text.split("#/components/schemas/")[1:]):
        assert reference.partition("'")[0] in schemas
    for path in document["paths"]:
        if path.startswith("/tables/"):
            name = path.removeprefix("/tables/")
            assert server.get(f"/api/v1/tables/{name}").status in (200, 404)


def test_token_that_cannot_be_checked_now_is_no_fault_of_the_person() -> None:
    async def access(token: str) -> Viewer | Unavailable | None:
        return Unavailable("the API server does not answer")

    with served(SnapshotSource(cluster(1, 1), "cluster.json", load(), lambda: 1e9), access) as server:
        answer = server.get("/api/v1/about")
        assert (answer.status, answer.json["error"]["where"]) == (503, "the API server does not answer")
