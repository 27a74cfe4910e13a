"""The page's types of answers name the fields that the server sends, and may miss what it may leave out."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.dashboard import answers, row_types

TYPES = Path(__file__).parent.parent.parent / "dashboard/src/api/types.ts"
STRUCTS: dict[str, Any] = {
    "About": answers.About,
    "Stale": answers.StaleSource,
    "NodeRow": row_types.NodeRow,
    "DeviceRow": row_types.DeviceRow,
    "Share": row_types.ShareOfDevice,
    "WorkloadRow": row_types.WorkloadRow,
    "Requested": row_types.RequestedAmounts,
    "PipelineRow": row_types.PipelineRow,
    "AugmentationRow": row_types.AugmentationRow,
    "ProposalRow": row_types.ProposalRow,
    "SimulationRow": row_types.SimulationRow,
    "ModelRow": row_types.ModelRow,
    "Page": answers.TablePage,
    "Why": answers.WhyAnswer,
    "Reason": answers.WhyReason,
    "ModelDevice": answers.Prediction,
    "ModelDevices": answers.ModelDevices,
    "Stage": answers.PipelineStage,
    "Link": answers.PipelineLink,
    "PipelineDetail": answers.PipelineAnswer,
    "Span": answers.FrameSpan,
    "Frame": answers.FrameAnswer,
    "DeviceSeries": answers.DeviceSeries,
    "SimulationDetail": answers.SimulationAnswer,
}


def interface(name: str) -> dict[str, bool]:
    """Return the fields of an interface, and whether each may be null."""
    text = TYPES.read_text(encoding="utf-8")
    match = re.search(rf"export interface {name}\b[^{{]*\{{(.*?)\}}(?:\n|$)(?=\n|export|$)", text, re.S)
    assert match, name
    flat = re.sub(r"\{[^{}]*\}(\[\])?", "object", match[1])
    fields = dict(re.findall(r"(\w+): ([^;]+?)\s*(?:;|$)", flat))
    return {field: "null" in kind.split("(")[0] for field, kind in fields.items()}


@pytest.mark.parametrize("name", STRUCTS)
def test_each_type_has_the_fields_that_the_server_sends(name: str) -> None:
    sent = {
        field.encode_name: type(None) in getattr(field.type, "__args__", ())
        for field in msgspec.structs.fields(STRUCTS[name])
        if field.encode_name != "key" or "Row" not in name
    }
    known = interface(name)
    assert known.keys() == sent.keys()
    wrong = [field for field, null in sent.items() if null and not known[field]]
    assert wrong == [], "may be null"
