"""What works on one input of a job after the other, kept warm in a process of its own.

warm.py      the process: its start, one input at a time, its end; a crash costs one input
__main__.py  what runs in it
calls.py     a Python function or an ONNX model, called with one file
checkpoint.py  programs that save what they have done, and go on from it
"""
