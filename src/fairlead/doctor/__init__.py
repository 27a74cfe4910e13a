"""What an operator would forget, looked at: a sight of a cluster, or of a machine, in; findings out.

The server and the lists of its objects are read once (`read.py`); every check is a pure function over that.
Nothing is brought in here: a machine (`here.py`) is looked at with nothing but Python.
"""
