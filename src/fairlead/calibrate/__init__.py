"""Run known models on this machine's accelerators and store the measurements.

    pack -> file -> child process per model and round -> TrialOutcome -> Trial -> Calibration -> profile file

Every model runs in a process of its own, in several rounds. So a crash is a reason in one row and does not
end the calibration, memory is that of one model, and other load on the machine does not disturb one model
alone.
"""
