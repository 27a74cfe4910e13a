"""Read a pipeline from a YAML file; every error names the line and what to write."""

import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Final

from fairlead.errors import PipelineError
from fairlead.pipeline.edge import DEPTH, EdgeContract
from fairlead.pipeline.hosts.table import read_hosts
from fairlead.pipeline.keys.batch import read_batch
from fairlead.pipeline.keys.canary import read_canary
from fairlead.pipeline.keys.fields import check_keys, read_count, read_flag, read_seconds
from fairlead.pipeline.keys.replicas import read_replicas
from fairlead.pipeline.ports import ANY, PortType, parse_port
from fairlead.pipeline.spec import BatchSpec, EdgeSpec, OnError, PipelineSpec, StageRole, StageSpec
from fairlead.pipeline.transport import MOST_DEPTH
from fairlead.units import Bytes, Seconds, parse_bytes
from fairlead.yamltext import BadYamlError, key_places, parse_documents

_TOP: Final = ("pipeline", "stages", "edges", "fuse", "hosts", "cluster")
_STAGE: Final = (
    *("name", "source", "run", "exec", "sink", "options", "in", "out"),
    *("replicas", "ordered", "batch", "on_error", "timeout", "cores", "memory", "on", "canary"),
)
_ROLES: Final = "source, run, exec and sink"
_EDGE: Final = ("from", "to", "policy", "depth", "max_age", "encode")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def read_pipeline(path: str) -> PipelineSpec:
    """Return the pipeline of a file; PipelineError where the file must be changed."""
    return parse_pipeline(read_text(path), path)


def read_text(path: str) -> bytes:
    """Return the text of a file; PipelineError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise PipelineError(f"{path}: cannot be read: {error.strerror}", "name a YAML file") from None


def parse_pipeline(data: bytes, path: str) -> PipelineSpec:
    """Return the pipeline of a text; `path` is named in errors, and files are looked for in its folder."""
    try:
        documents = list(parse_documents(data))
    except BadYamlError as error:
        raise PipelineError(f"{path}: not YAML: {error}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise PipelineError(
            f"{path}: not a pipeline", "a file begins with pipeline: NAME and has stages: [...]"
        )
    return _Reading(path, data.decode()).pipeline(documents[0])


def read_document(document: Mapping[str, Any]) -> PipelineSpec:
    """Return the pipeline of a parsed document; errors name the stage or edge by its place in the list."""
    return _Reading("", None).pipeline(document)


class _Reading:
    """One text, for the lines of its mappings; None: a document, which has no lines."""

    def __init__(self, path: str, text: str | None) -> None:
        self._path = path
        self._text = text
        self._entry = "pipeline"
        """Of a document: the place of what is being read."""

    def pipeline(self, document: Mapping[str, Any]) -> PipelineSpec:
        self._check_keys(document, _TOP, 1, "a pipeline")
        name = self._name(document.get("pipeline"), 1, "pipeline")
        stages = tuple(self._stage(*each) for each in self._mappings(document, "stages"))
        if not stages:
            raise self._error(1, "a pipeline without stages", "add stages: with a source and a sink")
        edges = tuple(self._edge(*each) for each in self._mappings(document, "edges"))
        if "edges" not in document:  # stages in a row
            pairs = pairwise(stages)
            edges = tuple(EdgeSpec(a.name, b.name, EdgeContract(), b.line) for a, b in pairs)
        fuse = self._flag(document, "fuse", 1, True)
        folder = os.path.dirname(os.path.abspath(self._path)) if self._path else ""
        self._entry = "hosts"
        hosts = read_hosts(document.get("hosts"), self._text, self._error)
        cluster = document.get("cluster") or {}
        if not isinstance(cluster, dict):
            raise self._error(1, "cluster is not a mapping", "write cluster: {image: IMAGE}")
        return PipelineSpec(name, stages, edges, fuse, folder, self._path, hosts, cluster)

    def _stage(self, entry: Mapping[str, Any], line: int) -> StageSpec:
        self._check_keys(entry, _STAGE, line, "a stage")
        name = self._name(entry.get("name"), line, "name")
        roles = [role for role in StageRole if role.value in entry]
        if len(roles) != 1:
            raise self._error(line, f"stage {name} must have one of {_ROLES}", "keep one of them")
        command = self._command(entry, name, line) if roles[0] is StageRole.EXEC else ()
        target = command[0] if command else entry[roles[0].value]
        if not isinstance(target, str) or not target:
            raise self._error(line, f"stage {name}: {roles[0]}: {target!r} is not a text", "name it")
        options = entry.get("options") or {}
        if not isinstance(options, dict):
            raise self._error(line, f"stage {name}: options is not a mapping", "write options: {name: value}")
        replicas, scale = read_replicas(entry.get("replicas", 1), partial(self._error, line))
        return StageSpec(
            name,
            roles[0],
            target,
            options,
            self._port(entry, "in", line),
            self._port(entry, "out", line),
            replicas,
            self._flag(entry, "ordered", line, True),
            self._batch(entry, line),
            self._on_error(entry, line),
            self._seconds(entry, "timeout", line),
            self._cores(entry, line),
            self._memory(entry, line),
            line=line,
            command=command,
            on=self._text_of(entry, "on", line, "local"),
            is_placed="on" in entry,
            scale=scale,
            canary=read_canary(entry.get("canary"), partial(self._error, line)),
        )

    def _edge(self, entry: Mapping[str, Any], line: int) -> EdgeSpec:
        self._check_keys(entry, _EDGE, line, "an edge")
        ends = [self._name(entry.get(key), line, key) for key in ("from", "to")]
        depth = self._count(entry, "depth", line, DEPTH, MOST_DEPTH)
        age = self._seconds(entry, "max_age", line)
        try:
            contract = EdgeContract.parse(str(entry.get("policy", "block")), depth, age)
            return EdgeSpec(ends[0], ends[1], contract, line, self._text_of(entry, "encode", line, ""))
        except ValueError as error:
            raise self._error(line, f"edge {ends[0]}->{ends[1]}: {error}", "") from None

    def _on_error(self, entry: Mapping[str, Any], line: int) -> OnError:
        try:
            return OnError(entry.get("on_error", OnError.STOP))
        except ValueError:
            known = ", ".join(OnError)
            raise self._error(
                line, f"on_error {entry['on_error']!r} is not known", f"known: {known}"
            ) from None

    def _batch(self, entry: Mapping[str, Any], line: int) -> BatchSpec | None:
        batch = entry.get("batch")
        if batch is None:
            return None
        return read_batch(batch, partial(self._error, line))

    def _command(self, entry: Mapping[str, Any], name: str, line: int) -> tuple[str, ...]:
        words = entry["exec"]
        words = [words] if isinstance(words, str) else words
        fits = isinstance(words, list) and all(type(word) in (str, int, float) for word in words)
        if not fits or not words or not words[0]:
            hint = "write exec: [./program, --option, value]"
            raise self._error(line, f"stage {name}: exec: {words!r} is not a list of words", hint)
        return tuple(map(str, words))

    def _port(self, entry: Mapping[str, Any], key: str, line: int) -> PortType:
        if key not in entry:
            return ANY
        try:
            return parse_port(str(entry[key]))
        except ValueError as error:
            raise self._error(line, f"{key}: {error}", "") from None

    def _cores(self, entry: Mapping[str, Any], line: int) -> tuple[int, ...]:
        cores = entry.get("cores", [])
        if not isinstance(cores, list) or not all(type(core) is int and core >= 0 for core in cores):
            raise self._error(line, f"cores: {cores!r} is not a list of cores", "write cores: [0, 1]")
        return tuple(cores)

    def _memory(self, entry: Mapping[str, Any], line: int) -> Bytes | None:
        if entry.get("memory") is None:
            return None
        try:
            memory = parse_bytes(str(entry["memory"]))
        except ValueError as error:
            raise self._error(line, f"memory: {error}", "write memory: 512Mi") from None
        if not memory > 0:
            raise self._error(line, f"memory: {entry['memory']}: a stage needs some", "write memory: 512Mi")
        return memory

    def _seconds(self, entry: Mapping[str, Any], key: str, line: int) -> Seconds | None:
        return read_seconds(entry, key, partial(self._error, line))

    def _count(self, entry: Mapping[str, Any], key: str, line: int, default: int, most: int) -> int:
        return read_count(entry, key, default, most, partial(self._error, line))

    def _flag(self, entry: Mapping[str, Any], key: str, line: int, default: bool) -> bool:
        return read_flag(entry, key, default, partial(self._error, line))

    def _text_of(self, entry: Mapping[str, Any], key: str, line: int, default: str) -> str:
        value = entry.get(key, default)
        if not isinstance(value, str):
            raise self._error(line, f"{key}: {value!r} is not a text", "")
        return value

    def _name(self, value: Any, line: int, key: str) -> str:
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise self._error(
                line, f"{key}: {value!r} is not a name", "use letters, digits, '-', '_' and '.'"
            )
        return value

    def _mappings(self, document: Mapping[str, Any], key: str) -> Iterable[tuple[Mapping[str, Any], int]]:
        entries = document.get(key) or []
        if not isinstance(entries, list):
            raise self._error(1, f"{key} is not a list", f"write {key}: with one line '- ...' for each")
        for index, entry in enumerate(entries):
            places = key_places(self._text, 0, [key, index]).places if self._text is not None else ()
            line = places[0][0] + 1 if places else 1
            self._entry = f"{key}[{index}]"
            if not isinstance(entry, dict):
                raise self._error(line, f"{key}[{index}] is not a mapping", "write {name: ..., ...}")
            yield entry, line

    def _check_keys(self, entry: Mapping[str, Any], known: tuple[str, ...], line: int, what: str) -> None:
        check_keys(entry, known, what, partial(self._error, line))

    def _error(self, line: int, text: str, hint: str) -> PipelineError:
        where = self._entry if self._text is None else f"{self._path}:{line}"
        return PipelineError(f"{where}: {text}", hint)
