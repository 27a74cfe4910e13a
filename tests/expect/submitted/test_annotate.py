"""A manifest with annotations: inserted lines, and the same documents otherwise."""

from typing import Any

import pytest

from fairlead.expect.submitted.annotate import annotate
from fairlead.expect.submitted.workloads import submitted
from fairlead.yamltext import parse_documents

DIGEST = "1234567890" * 4

DEPLOYMENT = """\
# a comment
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:   # of pods
    metadata:
      labels:
        app: web  # stays
    spec:
      containers: [{name: main}]
"""
WITH = DEPLOYMENT.replace("      labels:", "      annotations:\n        a: b\n      labels:")
BARE = DEPLOYMENT.replace("    metadata:\n      labels:\n        app: web  # stays\n", "")
EMPTY = DEPLOYMENT.replace("      labels:", "      annotations: {}\n      labels:")
FLOW = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}\n"
"""Written like JSON: it has no comments to lose."""
POD = "kind: Pod\napiVersion: v1\nmetadata:\n  name: p\nspec:\n  containers: []\n"
LIST = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: a
  spec: {containers: []}
- metadata:
    name: b
  kind: Pod
  apiVersion: v1
"""
CRON = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: c
spec:
  jobTemplate:
    spec:
      template:
        spec:
          containers: []
"""
SHARED = """\
apiVersion: v1
kind: List
items:
- kind: Pod
  apiVersion: v1
  metadata: &meta
    name: a
- kind: Pod
  apiVersion: v1
  metadata: *meta
"""
CRLF = DEPLOYMENT.replace("\n", "\r\n")


def annotated(text: str) -> tuple[str, bool, list[Any], list[Any]]:
    """Annotate every workload; return the text, whether the rest stayed, and the documents."""
    documents = [each for each in parse_documents(text.encode()) if each is not None]
    workloads, _ = submitted([("file", each) for each in documents])
    additions = {(each.document, each.template): {"fairlead.dev/model": DIGEST} for each in workloads}
    new, kept = annotate(text.encode(), documents, additions)
    return new, kept, documents, list(parse_documents(new.encode()))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (DEPLOYMENT, True), (WITH, True), (BARE, True), (EMPTY, False), (POD, True), (LIST, True),
        (CRON, True), (CRLF, True), (FLOW, True), (f"{FLOW}---\n{FLOW}", True), (SHARED, False),
        (f"---\n{POD}---\n# nothing\n---\n{DEPLOYMENT}", True),
        (POD.replace("metadata:\n  name: p", "metadata: {name: p, annotations: {a: b}}"), True),
        (POD.replace("metadata:\n  name: p", "metadata: {}"), False),
    ],
)  # fmt: skip
def test_every_template_is_annotated_and_nothing_else_changes(text: str, kept: bool) -> None:
    new, stayed, before, after = annotated(text)
    assert stayed == kept
    rest = iter(new)
    assert not kept or all(character in rest for character in text), "nothing is taken away"
    workloads, _ = submitted([("file", each) for each in after if each is not None])
    assert workloads
    for each in workloads:
        assert each.model == DIGEST
    stripped = [each for each in after if each is not None]
    assert [_without(each) for each in stripped] == [_without(each) for each in before]


def _without(value: Any) -> Any:
    """Return a document without the annotation, and without what is empty then."""
    if isinstance(value, list):
        return [_without(each) for each in value]
    if not isinstance(value, dict):
        return value
    rest = {key: _without(each) for key, each in value.items() if key != "fairlead.dev/model"}
    return {key: each for key, each in rest.items() if each != {}}


def test_json_stays_json() -> None:
    new, kept, _, _ = annotated('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}')
    assert new.startswith('{\n  "apiVersion": "v1"')
    assert kept


def test_without_additions_the_text_stays() -> None:
    assert annotate(DEPLOYMENT.encode(), [], {}) == (DEPLOYMENT, True)
