"""The file of a pipeline with the nodes and replicas of a plan; its other text stays as it is. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

from fairlead.pipeline.spec import PipelineSpec
from fairlead.yamltext import key_places, parse_documents

_VALUE: Final = re.compile(r"([A-Za-z_\"']+\s*:\s*)([^,}\s#]+)")


def with_plan(data: bytes, spec: PipelineSpec, nodes: Mapping[str, str], replicas: Mapping[str, int]) -> str:
    """Return the text of a pipeline with `on` for each free stage, and `replicas` for some."""
    text = data.decode()
    (document,) = parse_documents(data)
    lines = text.splitlines(keepends=True)
    for index in reversed(range(len(spec.stages))):  # from the end: places before it stay valid
        stage, keys = spec.stages[index], list(document["stages"][index])
        places = key_places(text, 0, ["stages", index])
        new = {"on": nodes[stage.name]} if not stage.is_placed and nodes[stage.name] != stage.on else {}
        values: dict[str, Any] = new | ({"replicas": replicas[stage.name]} if stage.name in replicas else {})
        for key, value in values.items():
            if key in keys:
                _change(lines, *places.places[keys.index(key)], value)
        added = [f"{key}: {value}" for key, value in values.items() if key not in keys]
        if added:
            _insert(lines, *places.places[0], added, flow=places.flow)
    return "".join(lines)


def _change(lines: list[str], line: int, column: int, value: Any) -> None:
    head, tail = lines[line][:column], lines[line][column:]
    lines[line] = head + _VALUE.sub(lambda match: f"{match[1]}{value}", tail, count=1)


def _insert(lines: list[str], line: int, column: int, entries: list[str], *, flow: bool) -> None:
    """Write entries before the first key of a mapping."""
    head, tail = lines[line][:column], lines[line][column:]
    between = ", " if flow else f"\n{' ' * column}"
    lines[line] = head + "".join(f"{entry}{between}" for entry in entries) + tail
