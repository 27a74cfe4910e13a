"""Predict latency, memory and energy of a model on a device. Pure, and numpy only.

    query = Query.of(profile, precision="int8", batch=8)             the model and how it runs (query.py)
    devices = targets(["coral-usb@usb2,t4"], catalog)                the devices (target.py)
    knowledge = Knowledge.of(calibrations, catalog, observed)        measurements (knowledge.py)
    estimates = estimate(query, devices, knowledge)                  one estimate per device (predict.py)

A model is a set of amounts of work, and a device is the seconds that each amount takes. These seconds come
from the data sheet (roofline.py with speeds.toml), from similar devices (corrections.py), from runs on the
device (calibrated.py), or from runs of the same model on other devices (transfer.py).
"""
