"""Predict latency, memory and energy of a model on a device. Pure, and numpy only.

    question = Question.of(profile, precision="int8", batch=8)       what is asked (question.py)
    devices = targets(["coral-usb@usb2,t4"], catalog)                of whom (target.py)
    knowledge = Knowledge.of(calibrations, catalog, seen)            what was measured (knowledge.py)
    estimates = estimate(question, devices, knowledge)               the answers (predict.py)

A model is amounts of work, a device is the seconds of each: by its data sheet (roofline.py with speeds.toml),
by devices like it (likeness.py), by runs on it (calibrated.py) or by this very model elsewhere (transfer.py).
"""
