"""Reference pages made from the code, the chart and the CRDs: commands, values, resources, metrics, names."""

import argparse
import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from deploy import render
from deploy.site.pages import HOUSE, SourcePage
from fairlead.cli.kubectl.commandline import build_parser as build_plugin
from fairlead.cli.main import COMMANDS, build_parser

_SOURCES: Final = HOUSE / "src" / "fairlead"
_METRIC: Final = re.compile(r"fairlead_[a-z0-9_]+")
_LIMITS: Final = ("default", "minimum", "maximum", "maxLength", "maxItems", "pattern", "enum")
_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s")


def generated_pages() -> list[SourcePage]:
    """Return every generated page."""
    return [*_commands(), _plugin(), _chart(), *_resources(), _metrics(), _keys()]


def _page(name: str, text: str) -> SourcePage:
    return SourcePage(f"docs/generated/{name}.md", f"generated/{name}.html", text)


def _commands() -> Iterator[SourcePage]:
    for name in COMMANDS:
        subs = _subcommands(build_parser(name))[name]
        also = HOUSE / f"docs/reference/{name}.md"
        more = f"\n[More about it](../reference/{name}.md).\n" if also.is_file() else ""
        yield _page(f"command-{name}", f"# `fairlead {name}`, every option\n{more}\n{_command(subs)}")


def _plugin() -> SourcePage:
    commands = _subcommands(build_plugin())
    text = "\n".join(_command(each) for each in commands.values())
    return _page(
        "kubectl",
        f"# `kubectl fairlead`, every option\n\n[More about it](../reference/kubectl.md).\n\n{text}",
    )


def _command(parser: argparse.ArgumentParser) -> str:
    """Return a command with its verbs, as Markdown."""
    rows = [_option(action, parser) for action in parser._actions if _is_shown(action)]
    table = "\n".join(["| option or argument | meaning |", "|---|---|", *rows]) if rows else ""
    usage = _usage(parser)
    text = f"## `{parser.prog}`\n\n{_cell(parser.description or '')}\n\n```\n{usage}\n```\n\n{table}\n"
    return "\n".join([text, *(_command(below) for below in _subcommands(parser).values())])


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage of a command, as wide as a page whatever the terminal is."""
    formatter = argparse.HelpFormatter(parser.prog, width=100)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    subs = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return {name: below for sub in subs for name, below in sub.choices.items()}


def _is_shown(action: argparse.Action) -> bool:
    return not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)


def _option(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    values = {**vars(action), "prog": parser.prog}
    about = _PLACEHOLDER.sub(lambda found: str(values.get(found[1], "")), action.help or "").replace(
        "%%", "%"
    )
    names = ", ".join(f"`{each}`" for each in action.option_strings) or f"`{action.metavar or action.dest}`"
    value = f" `{action.metavar}`" if action.option_strings and action.metavar else ""
    choices = f" One of {', '.join(f'`{each}`' for each in action.choices)}." if action.choices else ""
    return f"| {names}{value} | {_cell(about)}{'.' if choices else ''}{choices} |"


def _cell(text: str) -> str:
    """Return a text as it stands in a table of Markdown."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").split())


def _chart() -> SourcePage:
    schema = json.loads((render.CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((render.CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = [_value(*each) for each in render.leaves(schema, values)]
    head = "# The chart, every value\n\n[How to install it](../how-to/install.md).\n\n"
    return _page(
        "chart", "\n".join([f"{head}| value | type | default | meaning |", "|---|---|---|---|", *rows, ""])
    )


def _value(path: str, field: Mapping[str, Any], default: Any) -> str:
    about = _cell(field.get("description", ""))
    return f"| `{path}` | {_types(field)} | `{_cell(json.dumps(default))}` | {about} |"


def _types(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return _cell(" \\| ".join(str(each) or '""' for each in field["enum"])).replace("\\\\", "\\")
    kind = field.get("type", "any")
    return ", ".join(kind) if isinstance(kind, list) else str(kind)


def _resources() -> Iterator[SourcePage]:
    for path in sorted(render.MANIFESTS.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document and document["kind"] == "CustomResourceDefinition":
                yield _resource(document)


def _resource(crd: Mapping[str, Any]) -> SourcePage:
    names, group = crd["spec"]["names"], crd["spec"]["group"]
    parts = [f"# {names['kind']}, every field\n"]
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        rows = [_field(*each) for each in _fields(schema)]
        about = _cell(schema.get("description", ""))
        head = f"## `{group}/{version['name']}`\n\n{about}\n\n| field | type | meaning |\n|---|---|---|"
        parts.append("\n".join([head, *rows, ""]))
    return _page(f"resource-{names['plural']}", "\n".join(parts))


def _fields(schema: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield each field below a schema: its path, its own schema, and whether it is required."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        path = f"{above}{name}"
        yield path, field, name in required
        inner = field.get("items", field)
        yield from _fields(inner, f"{path}[]." if "items" in field else f"{path}.")
        if isinstance(field.get("additionalProperties"), Mapping):
            yield from _fields(field["additionalProperties"], f"{path}.*.")


def _field(path: str, field: Mapping[str, Any], required: bool) -> str:
    rules = [each.get("message") or each["rule"] for each in field.get("x-kubernetes-validations", ())]
    limits = [f"{name} `{_code(field[name])}`" for name in _LIMITS if name in field]
    about = _cell(field.get("description", ""))
    notes = "; ".join([*(["required"] if required else []), *limits, *map(_cell, rules)])
    text = f"{about} ({notes})" if notes and about else about or notes
    return f"| `{path}` | {field.get('type', 'any')} | {text} |"


def _code(value: Any) -> str:
    """Return a value as it stands in a code span of a table."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.replace("|", "\\|").replace("`", "'")


def _metrics() -> SourcePage:
    found: dict[str, str] = {}
    for path in sorted(_SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call | ast.Tuple):
                texts = [each.value for each in _parts(node) if isinstance(each, ast.Constant)]
                words = [each for each in texts if isinstance(each, str)]
                if (
                    words
                    and _METRIC.fullmatch(words[0])
                    and (about := [each for each in words[1:] if " " in each])
                ):
                    found.setdefault(words[0], about[0])
    rows = [f"| `{name}` | {_cell(about)} |" for name, about in sorted(found.items())]
    head = (
        "# Metrics, every one\n\nThe help texts of the metrics pages. "
        "[Labels and what they mean](../reference/metrics.md).\n"
    )
    return _page("metrics", "\n".join([head, "| metric | meaning |", "|---|---|", *rows, ""]))


def _parts(node: ast.Call | ast.Tuple) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else node.args


def _keys(path: Path = _SOURCES / "keys.py") -> SourcePage:
    """Return the names in keys.py with the texts below them."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    rows = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        value = node.value if isinstance(node, ast.AnnAssign) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and "/" in value.value:
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            about = str(after.value.value) if documented else ""  # type: ignore[union-attr]  # as just checked
            rows.append(f"| `{value.value}` | {_cell(about)} |")
    head = (
        "# Labels, annotations and resources, every one\n\nEvery name that fairlead writes or reads, its "
        "own and those of other projects. [What an agent writes on its node](../reference/labels.md).\n"
    )
    return _page("keys", "\n".join([head, "| name | meaning |", "|---|---|", *sorted(rows), ""]))
