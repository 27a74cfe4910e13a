"""Inference engines that share one accelerator, arranged in several ways and compared by what they did.

    workload -> engine (a process) -> events -> figures -> document, plot
                  ^                                ^
    queue (the real local queue), pool       samples (NVML, a process)

The engines are real: each is a process that loads a network of the zoo, answers queries and writes down when
each one ended and a digest of what it answered. `queue` hands them to fairlead's own queue; `pool` starts
them itself, for a fixed number at once and for the published policies.
"""
