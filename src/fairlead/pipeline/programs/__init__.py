"""Stages that are programs in any language: docs/reference/pipeline-protocol.md.

wire.py     the bytes between a worker and a program; pure
process.py  a program as the child of a worker
launch.py   what the child runs before it becomes the program
check.py    what is checked before a run
runner.py   a stage that is a program, as a worker uses it
"""
