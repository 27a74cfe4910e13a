"""Every file is either read or rejected with a reason, whatever its content."""

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.cache.clusterfile import read_cluster
from fairlead.errors import ManifestError
from fairlead.expect.workloads import read_workloads
from fairlead.manifest.files.snapshot import Snapshot
from fairlead.manifest.files.text import read
from tests.manifest.worlds import CATALOG, pod

SCENARIOS = Path(__file__).parent.parent / "scenarios"
JUNK = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1.5,
        float("nan"),
        float("inf"),
        10**30,
        "",
        "-1",
        "1e99",
        "nonsense",
        "\x00",
        [],
        {},
        [1],
        {"a": 1},
    ]
)


def worlds() -> list[tuple[Any, Any]]:
    """Return every scenario's cluster and workloads, and a small cluster with a pod."""
    scenarios = [read(str(path))[0][1] for path in sorted(SCENARIOS.glob("*.yaml"))]
    return [(scenario["cluster"], scenario["workloads"]) for scenario in scenarios] + [
        ({"nodes": [{"name": "a"}]}, [pod({"cpu": 1})])
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def corrupted(document: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """Return a document with one value replaced."""
    whole = copy.deepcopy(document)
    at = whole
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = junk
    return whole


def write_file(folder: Path, name: str, value: Any) -> str:
    formal = isinstance(value, list) and value and isinstance(value[0], dict) and "kind" in value[0]
    whole = {"apiVersion": "v1", "kind": "List", "items": value} if formal else value
    short = {"workloads": whole} if name == "work" and not formal else whole
    (folder / f"{name}.json").write_text(json.dumps(short))
    return str(folder / f"{name}.json")


WORLDS = worlds()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_one_corrupted_value(tmp_path: Path, data: st.DataObject) -> None:
    cluster, workloads = data.draw(st.sampled_from(WORLDS))
    if data.draw(st.booleans()):
        cluster = corrupted(cluster, data.draw(st.sampled_from(list(places(cluster)))), data.draw(JUNK))
    else:
        workloads = corrupted(workloads, data.draw(st.sampled_from(list(places(workloads)))), data.draw(JUNK))
    with suppress(ManifestError):
        snapshot = read_cluster([write_file(tmp_path, "cluster", cluster)], CATALOG)
        read_workloads([write_file(tmp_path, "work", workloads)], snapshot, CATALOG)


@given(JUNK)
def test_a_file_of_junk(tmp_path_factory: Any, junk: Any) -> None:
    folder = tmp_path_factory.mktemp("junk")
    with suppress(ManifestError):
        read_cluster([write_file(folder, "cluster", junk)], CATALOG)
    with suppress(ManifestError):
        read_workloads([write_file(folder, "other", junk)], Snapshot(), CATALOG)
