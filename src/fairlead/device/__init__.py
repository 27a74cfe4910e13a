"""The device's side of a session: its credential, a durable queue of uploads, transfers that resume.

Only the standard library: the program runs on small boards, in less than 40 MiB.
"""
