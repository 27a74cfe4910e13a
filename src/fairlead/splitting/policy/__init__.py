"""Whether a job offloads its compute, its storage, both or neither, and where; pure: time is an argument.

facts.py        what is known of the job, the device, the server, the link and the space
rates.py        the rate of a side: predicted by the estimator at first, then more and more what was measured
expected.py     the expected time, energy and traffic of one alternative, or why it is impossible
decide.py       all alternatives in order, and the one to take
revise.py       the same while the job runs, with hysteresis
explain.py      the alternatives for people and for programs

An alternative is where the inputs are computed (`device`, `server` or both, `split`) and where the results
are kept (`device` or `server`). How the program of a session uses it:

    facts = OffloadFacts(inputs, device=SideFacts(rate), server=SideFacts(rate), link=OffloadLink(up, down))
    state = begin(facts, now)                   # the decision of the first second
    state = revise(state, facts, now)           # every second, with the facts as they are then
    state.chosen.compute                        # who may pull inputs: the workers of these sites
    for line in explain(state.decision): ...    # --explain

Nothing here does I/O: who runs a job reads its workers' rates, and gives inputs to the sites that are chosen.
"""
