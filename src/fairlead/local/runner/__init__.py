"""One job from its start to its end: process, signals, measured use, exit code."""
