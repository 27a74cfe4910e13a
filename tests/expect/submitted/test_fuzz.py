"""Every manifest is either searched or rejected with a reason, whatever its content."""

import copy
import json
import tempfile
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ManifestError
from fairlead.expect.submitted.analyse import analyse_workload
from fairlead.expect.submitted.annotate import annotate
from fairlead.expect.submitted.contents import ReadableContents
from fairlead.expect.submitted.find import ModelSearch
from fairlead.expect.submitted.workloads import submitted
from fairlead.yamltext import dump
from tests.expect.submitted.worlds import GPU
from tests.manifest.test_fuzz import JUNK, corrupted, places

CONTAINER = {
    "name": "main",
    "image": "app",
    "args": ["$(D)/a.onnx"],
    "env": [{"name": "D", "value": "/m"}],
    "workingDir": "/srv",
    "resources": GPU,
    "volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "s"}, {"name": "c", "mountPath": "/c"}],
}
SPEC = {
    "containers": [CONTAINER],
    "volumes": [
        {"name": "v", "hostPath": {"path": "/nowhere"}},
        {"name": "c", "configMap": {"name": "c", "items": [{"key": "a.onnx", "path": "a.onnx"}]}},
    ],
}
ITEMS: list[Any] = [
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"metadata": {"annotations": {"fairlead.dev/analyze": "auto"}}, "spec": SPEC}},
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default"},
        "binaryData": {"a.onnx": "AAAA"},
        "data": {"b.onnx": "x"},
    },
]
MANIFEST: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": ITEMS}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(places(MANIFEST))), JUNK, st.booleans())
def test_one_corrupted_value(path: tuple[Any, ...], junk: Any, as_yaml: bool) -> None:
    manifest = corrupted(copy.deepcopy(MANIFEST), path, junk)
    data = (dump(manifest) if as_yaml else json.dumps(manifest)).encode()
    with suppress(ManifestError), tempfile.TemporaryDirectory() as scratch:
        workloads, config_maps = submitted([("file", manifest)])
        search = ModelSearch(ReadableContents(config_maps), scratch)
        for workload in workloads:
            result = analyse_workload(workload, search, [])
            assert result.sentence()
            annotate(data, [manifest], {(workload.document, workload.template): {"x": "y"}})
