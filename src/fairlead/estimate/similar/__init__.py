"""Predict how long a model takes on a device, from a few runs there and from times on other devices.

    library = MeasurementLibrary.of(devices, models, logs)      times on other devices; may be empty
    predictor = fit(device, [(traits, seconds), ...], library)  ten runs on the new device; may be none
    [[estimate]] = predictor.predict([traits])                 mean, p90 and confidence

`DeviceTraits` holds the words and the data sheet's figures of a device, runtime, precision and mode.
`join([...])` joins predictors that were fitted with the same library. Values may be watts as well as
seconds.
"""

from fairlead.estimate.similar.device import DeviceTraits, words
from fairlead.estimate.similar.library import MeasurementLibrary
from fairlead.estimate.similar.predictor import Predictor, SimilarityEstimate, fit, fit_columns, join
from fairlead.estimate.similar.traits import ModelTraits

__all__ = [
    "DeviceTraits",
    "MeasurementLibrary",
    "ModelTraits",
    "Predictor",
    "SimilarityEstimate",
    "fit",
    "fit_columns",
    "join",
    "words",
]
