"""Decoding of objects: only the used fields, with nulls, absent fields and any chunk border."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.http import codec
from fairlead.cluster.http.lines import LineSplitter
from fairlead.cluster.kinds import CONFIG_MAPS, KINDS, LEASES, NODES, PODS, Kind
from fairlead.cluster.meta import Metadata, Raw, Status, WatchEvent
from fairlead.cluster.objects import Lease, LeaseSpec, Pod
from fairlead.cluster.times import format_micro, format_time, parse_time
from fairlead.errors import ClusterError
from fairlead.modelprofiles.types import MODEL_PROFILES

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "a",
        "namespace": "x",
        "uid": "u1",
        "resourceVersion": "7",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "u0", "controller": True}],
    },
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "fairlead.dev/gpu-mem": "512"}}}],
        "nodeName": "n1",
        "volumes": [{"name": "v", "emptyDir": {}}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]
                }
            }
        },
    },
    "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
}


def data(document: object) -> bytes:
    return msgspec.json.encode(document)


def test_the_used_fields_are_decoded() -> None:
    pod = codec.decode(PODS, data(POD))
    assert pod.key == ("x", "a")
    assert pod.metadata.owner_references[0].controller
    assert pod.spec.containers[0].resources.requests["fairlead.dev/gpu-mem"] == "512"
    assert pod.spec.affinity.node_affinity.required is not None
    assert pod.spec.affinity.node_affinity.required.node_selector_terms[0].match_expressions[0].key == "k"
    assert (pod.status.pod_ip, pod.status.conditions[0].status) == ("10.0.0.1", "True")


def test_null_counts_as_absent() -> None:
    nulls = {
        "metadata": {"name": "a", "labels": None, "creationTimestamp": None},
        "spec": {"containers": None, "priority": None},
        "status": None,
    }
    pod = codec.decode(PODS, data(nulls))
    assert pod.metadata == Metadata(name="a")
    assert (pod.spec.containers, pod.spec.priority) == ((), 0)
    page = codec.decode_page(PODS, data({"items": [POD, nulls], "metadata": {"continue": "more"}}))
    assert [item.metadata.name for item in page.items] == ["a", "a"]
    assert page.next == "more"
    assert codec.decode_page(PODS, data({"items": None, "metadata": {}})).items == []


def test_a_raw_object_keeps_all_fields() -> None:
    raw = codec.decode(PODS.raw(), data(POD))
    assert raw.document() == POD
    bare = {key: value for key, value in POD.items() if key not in ("apiVersion", "kind")}
    page = codec.decode_page(PODS.raw(), data({"kind": "PodList", "items": [bare], "metadata": {}}))
    assert page.items[0].document() == POD, "objects in a list have no kind"
    assert codec.to_document(PODS.raw(), page.items[0]) == POD


def test_an_encoded_object_names_its_kind() -> None:
    lease = Lease(metadata=Metadata(name="l"), spec=LeaseSpec(holder_identity="me"))
    assert codec.to_document(LEASES, lease) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me"},
    }
    unnamed = Kind.of("fairlead.dev", "v1alpha1", "pipelines", namespaced=True)
    with pytest.raises(TypeError, match="must name its kind"):
        codec.to_document(unnamed, {"metadata": {"name": "p"}})


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.type is not Raw], ids=str)
def test_every_kind_survives_encoding_and_decoding(kind: Kind[Pod]) -> None:
    assert codec.decode(kind, codec.encode(kind, kind.type())) == kind.type()


def line(event: str, thing: object) -> bytes:
    return data({"type": event, "object": thing})


def test_watch_lines_are_decoded() -> None:
    event = codec.decode_event(PODS, line("MODIFIED", POD))
    assert isinstance(event, WatchEvent)
    assert (event.type, event.object.key, event.initial_end) == ("MODIFIED", ("x", "a"), False)
    turned = data({"object": POD, "type": "ADDED"})
    assert isinstance(codec.decode_event(PODS, turned), WatchEvent), "the order of the fields is not fixed"
    raw = codec.decode_event(PODS.raw(), line("DELETED", POD))
    assert isinstance(raw, WatchEvent)
    assert isinstance(raw.object, Raw)


def test_bookmarks_are_decoded() -> None:
    mark = {
        "kind": "Pod",
        "metadata": {
            "resourceVersion": "99",
            "creationTimestamp": None,
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
        "spec": {"containers": None},
        "status": {},
    }
    for form in (line("BOOKMARK", mark), data({"object": mark, "type": "BOOKMARK"})):
        event = codec.decode_event(PODS, form)
        assert isinstance(event, WatchEvent)
        assert (event.object.metadata.resource_version, event.initial_end) == ("99", True)


def test_a_bookmark_lacks_required_fields_of_its_kind() -> None:
    event = codec.decode_event(MODEL_PROFILES, line("BOOKMARK", {"metadata": {"resourceVersion": "7"}}))
    assert isinstance(event, WatchEvent)
    assert event.object.metadata.resource_version == "7"


def test_the_error_that_ends_a_watch_is_decoded() -> None:
    gone = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "metadata": {}}
    for form in (line("ERROR", gone), data({"object": gone, "type": "ERROR"})):
        assert codec.decode_event(PODS, form) == Status(status="Failure", reason="Expired", code=410)


@pytest.mark.parametrize(
    "junk", [b"", b"<html>", b"{", b"[]", b'{"type":"ADDED"}', b'{"metadata":3}', b"\xff"]
)
def test_invalid_json_is_a_cluster_error(junk: bytes) -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        codec.decode_event(PODS, junk)
    if junk != b'{"type":"ADDED"}':
        with pytest.raises(ClusterError, match="cannot be read"):
            codec.decode(NODES, junk)
        with pytest.raises(ClusterError, match="cannot be read"):
            codec.decode_page(NODES, junk)


@given(st.lists(st.binary(max_size=40).map(lambda part: part.replace(b"\n", b"")), max_size=20), st.data())
def test_lines_are_complete_wherever_chunks_end(lines: list[bytes], draw: st.DataObject) -> None:
    stream = b"".join(part + b"\n" for part in lines)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    splitter = LineSplitter()
    assert [line for part in chunks for line in splitter.feed(part)] == [part for part in lines if part]
    assert not splitter.incomplete


def test_a_line_may_be_long_and_may_be_missing_its_end() -> None:
    splitter = LineSplitter()
    for _ in range(1500):
        assert splitter.feed(b"x" * 1024) == []
    assert splitter.incomplete
    assert splitter.feed(b"\n{}\n{") == [b"x" * 1500 * 1024, b"{}"]
    assert splitter.incomplete


def test_the_length_of_a_line_is_limited() -> None:
    splitter = LineSplitter()
    for _ in range(64):
        splitter.feed(b"x" * (1 << 20))
    with pytest.raises(ClusterError, match="64 MiB"):
        splitter.feed(b"x")


def test_times() -> None:
    at = parse_time("2026-11-15T23:40:07Z")
    assert format_time(at) == "2026-11-15T23:40:07Z"
    assert format_micro(at) == "2026-11-15T23:40:07.000000Z", "the server refuses fewer digits"
    assert parse_time(format_micro(at)) == at
    assert parse_time("2026-11-15T23:40:07.123456789Z").microsecond == 123456


def test_the_paths_of_kinds() -> None:
    assert PODS.path("x", "a", "binding") == "/api/v1/namespaces/x/pods/a/binding"
    assert LEASES.path() == "/apis/coordination.k8s.io/v1/leases"
    assert NODES.path("ignored", "n/1") == "/api/v1/nodes/n%2F1"
    assert CONFIG_MAPS.raw().type is Raw
