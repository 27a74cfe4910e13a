"""Run known models on this machine's accelerators and keep what they took.

    pack -> file -> child process per model and round -> Outcome -> Trial -> Calibration -> profile file

Every model runs in a process of its own, in several rounds: a crash is a reason and not an end, memory is
that of one model, and what else goes on in the machine does not fall on one model alone.
"""
