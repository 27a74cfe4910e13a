"""What a training step of a model takes: time, memory and energy, from the graph of its inference. Pure.

    setup = TrainingSetup(64, "adam", "amp")            how it is trained (setup.py)
    layers = training_layers(profile.flow)              the graph as a framework trains it (layers.py)
    memory = peak_memory(layers, setup, batch)          what the allocator counts (memory.py)
    step = step_work(layers, setup, batch)              forward, backward and update (work.py)
    job = TrainingJob.of(profile, setup)                all of these
    estimates = estimate_training(job, targets, known)  one for each device (predict.py)

An inference file has lost what training needs: norms are folded into convolutions, activations are written
out. `restore.py` and `merge.py` put them back before anything is counted.
"""
