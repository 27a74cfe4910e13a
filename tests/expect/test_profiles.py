"""Models that a cluster knows: found by name, and estimated as from their file."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from fairlead.analyze import analyze
from fairlead.catalog import Catalog
from fairlead.errors import ManifestError
from fairlead.estimate.knowledge import Knowledge
from fairlead.estimate.predict import estimate
from fairlead.estimate.query import Query
from fairlead.estimate.target import target
from fairlead.expect.profiles import KnownModels
from fairlead.modelprofiles.analysed import analysed_profile
from fairlead.modelprofiles.convert import calibration_profiles, observed_profile
from fairlead.modelprofiles.types import ModelProfile
from fairlead.request import Expectation
from fairlead.units import Seconds
from fairlead.zoo import KNOWN
from fairlead.zoo.onnxfile import write
from tests.profiles import LATENCY, MADE, calibration, observed

DEVICES = ("coral-usb", "jetson-tx2", "t4", "l4", "no-such")


def imported(folder: Path, model: str, name: str, precision: str = "fp32") -> ModelProfile:
    write(KNOWN[model](1, precision), str(folder / name))
    return analysed_profile(analyze(str(folder / name)), MADE, "n")


def digest_of(models: KnownModels, name: str, precision: str = "") -> str:
    return models.find("here", name, precision).digest


def test_a_model_is_estimated_as_from_its_file(catalog: Catalog, tmp_path: Path) -> None:
    models = KnownModels.of([imported(tmp_path, "mobilenet_v1", "m.onnx")], catalog)
    estimates = models.expectations(models.find("here", "m", ""), "", DEVICES)
    query = Query.of(analyze(str(tmp_path / "m.onnx")))
    for each in estimate(query, [target(name, catalog) for name in DEVICES[:-1]], Knowledge()):
        assert estimates[each.device].seconds == each.p90
        assert estimates[each.device].joules == each.joules
    assert estimates[DEVICES[-1]] == Expectation(unknown="not known: no row in the catalog; add one")


def test_a_requested_precision_counts(catalog: Catalog, tmp_path: Path) -> None:
    models = KnownModels.of([imported(tmp_path, "mobilenet_v1", "m.onnx")], catalog)
    estimates = models.expectations(models.find("here", "m", "fp16"), "fp16", DEVICES)
    assert "int8" in estimates["coral-usb"].reason
    assert not estimates["t4"].reason


def test_a_measurement_takes_precedence_over_data_sheets(catalog: Catalog) -> None:
    models = KnownModels.of(calibration_profiles(calibration(), "n"), catalog)
    estimates = models.expectations(models.find("here", "plain", ""), "", DEVICES)
    assert estimates["l4"].seconds == pytest.approx(0.02), "the p90 of the runs"
    assert {name for name in DEVICES if estimates[name].seconds} == set(DEVICES[:-1]), (
        "and elsewhere predicted"
    )


def test_a_model_that_was_only_observed_is_estimated_where_it_was_observed(catalog: Catalog) -> None:
    richer = replace(LATENCY, p90=Seconds(0.03), count=99)
    profiles = [
        observed_profile(observed(), "n"),
        observed_profile(observed(host="another", latency=richer), "n"),
    ]
    models = KnownModels.of(profiles, catalog)
    estimates = models.expectations(models.find("here", "detector", ""), "", DEVICES)
    assert (estimates["l4"].seconds, estimates["l4"].memory) == (0.03, 2_000)
    assert estimates["l4"].joules == pytest.approx(30.0 * 0.011)
    elsewhere = {expected.unknown for name, expected in estimates.items() if name != "l4"}
    assert elsewhere == {"not known: the model was observed in use, but not here; import its file"}


def test_names_by_which_a_model_is_known(catalog: Catalog) -> None:
    models = KnownModels.of(
        [*calibration_profiles(calibration(), "n"), observed_profile(observed(), "n")], catalog
    )
    for name in ("detector.onnx", "detector", "models/Detector.onnx", "c" * 8, "C" * 40):
        assert digest_of(models, name)[0] == "c"
    for name in ("c" * 7, "detect", ""):
        with pytest.raises(ManifestError):
            digest_of(models, name)


def test_an_unknown_model_gets_a_hint_that_names_no_other_model(catalog: Catalog) -> None:
    models = KnownModels.of(
        [*calibration_profiles(calibration(), "n"), observed_profile(observed(), "n")], catalog
    )
    for name in ("detektor", "zebra"):
        with pytest.raises(ManifestError, match=f"the cluster knows no model '{name}'") as caught:
            digest_of(models, name)
        assert not words_of(caught.value) & {"detector", "plain", "points"}
        assert "fairlead profiles import --model" in caught.value.hint
        assert "kubectl get modelprofiles" in caught.value.hint


def words_of(error: ManifestError) -> set[str]:
    """Return the words that a pod's condition would carry."""
    return set(re.findall(r"[a-z0-9]+", f"{error} {error.hint}"))


def test_an_ambiguous_name_is_rejected(catalog: Catalog, tmp_path: Path) -> None:
    both = [imported(tmp_path, "resnet18", f"r-{each}.onnx", each) for each in ("fp32", "fp16")]
    alike = [structs.replace(each, spec=structs.replace(each.spec, model="r.onnx")) for each in both]
    models = KnownModels.of(alike, catalog)
    with pytest.raises(ManifestError, match="may be any of 2 models") as caught:
        digest_of(models, "r")
    assert "fairlead.dev/precision" in caught.value.hint
    assert not any(
        word in digest for digest in models.known for word in words_of(caught.value) if len(word) > 7
    )
    assert digest_of(models, "r", "fp16") != digest_of(models, "r", "fp32")
