"""Why a model does not run on a runtime as it is: its format, its precision or an operator.

A reason begins with its cause, so that programs know what a conversion can fix: `format:`, `precision:`,
`shape:` and `operator:`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final

from fairlead.compat import toml
from fairlead.units import pluralize
from fairlead.workload import COMPUTE, Operator

_MOST: Final = 12
"""The most reasons of one runtime; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class RuntimeSupport:
    """The models that one runtime takes, by its documentation."""

    title: str
    """Its name in messages."""
    source: str
    formats: tuple[str, ...]
    domains: tuple[str, ...] | None = None
    precisions: tuple[str, ...] = ()
    takes: frozenset[str] | None = None
    refuses: frozenset[str] = frozenset()
    customs: frozenset[str] | None = None
    falls_back: str = ""
    converted: Mapping[str, str] = field(default_factory=dict)
    """The operator that a converter makes of each operator of another format."""


@cache
def runtimes() -> Mapping[str, RuntimeSupport]:
    """Return every runtime of the table."""
    text = files(__package__).joinpath("support.toml").read_text(encoding="utf-8")
    return {name: _runtime(row) for name, row in toml.loads(text).items()}


def _runtime(row: Mapping[str, object]) -> RuntimeSupport:
    def listed(key: str) -> tuple[str, ...] | None:
        value = row.get(key)
        return tuple(str(item) for item in value) if isinstance(value, list) else None

    takes, customs, converted = listed("takes"), listed("customs"), row.get("converted")
    return RuntimeSupport(
        str(row["title"]),
        str(row["source"]),
        listed("formats") or (),
        listed("domains"),
        listed("precisions") or (),
        None if takes is None else frozenset(takes),
        frozenset(listed("refuses") or ()),
        None if customs is None else frozenset(f"custom.{name}" for name in customs),
        str(row.get("falls_back", "")),
        converted if isinstance(converted, dict) else {},
    )


def unsupported(form: str, operators: Iterable[Operator]) -> dict[str, tuple[str, ...]]:
    """Return, by runtime, why it does not run a model as it is; runtimes that take it are left out."""
    listed = list(
        {
            (operator.op, operator.kind, operator.precision, operator.exact): operator
            for operator in operators
        }.values()
    )
    reasons_by_runtime = {
        name: tuple(_reasons(runtime, form, listed)) for name, runtime in runtimes().items()
    }
    return {name: reasons for name, reasons in reasons_by_runtime.items() if reasons}


def _reasons(runtime: RuntimeSupport, form: str, operators: list[Operator]) -> Iterable[str]:
    if form not in runtime.formats:
        yield f"format: {runtime.title} reads {' or '.join(runtime.formats)}, and this is {form}: convert it"
        if not runtime.converted:
            return
    if runtime.precisions:
        yield from _precision_reasons(runtime, operators)
    missing = dict.fromkeys(record.op for record in operators if not _supports(runtime, form, record))
    for op in list(missing)[:_MOST]:
        fallback = f": {runtime.falls_back}" if runtime.falls_back else ""
        yield f"operator: {runtime.title} does not run {op}{fallback}"
    if len(missing) > _MOST:
        yield f"operator: and {pluralize(len(missing) - _MOST, 'more kind', 'more kinds')} of operators"


def _precision_reasons(runtime: RuntimeSupport, operators: list[Operator]) -> Iterable[str]:
    work = [record for record in operators if record.kind in COMPUTE]
    other = sorted({record.precision for record in work} - set(runtime.precisions))
    if other:
        own = " or ".join(runtime.precisions)
        yield f"precision: {runtime.title} computes in {own}, this model in {', '.join(other)}: quantise it"
    if any(not record.exact for record in operators):
        yield f"shape: {runtime.title} needs every size to be fixed"


def _supports(runtime: RuntimeSupport, form: str, record: Operator) -> bool:
    op = record.op
    if record.kind == "control" and op in runtime.refuses:
        return False
    if form not in runtime.formats:
        op = runtime.converted.get(op.removeprefix("com.microsoft."), "")
    if runtime.takes is not None:
        return op in runtime.takes
    if op.startswith("custom."):
        return runtime.customs is not None and op in runtime.customs
    if runtime.domains is not None and op.rpartition(".")[0] not in runtime.domains:
        return False
    return op not in runtime.refuses
