"""Checks for what an operator would forget: a view of a cluster, or of a machine, in; findings out.

`read.py` reads the server and lists its objects once; every check is a pure function of that view.
This module imports nothing, so the checks of one machine (`this_machine.py`) need nothing but Python.
"""
