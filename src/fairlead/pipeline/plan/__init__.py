"""The best cut of a pipeline: which node runs which stages. Pure; `highs.py` is the door to HiGHS."""
