"""The operator: makes what the controllers of our custom resources want.

controllers.py  the table of the controllers
machine.py      events in, effects out: leader election, the queue, one pass over a resource at a time
driver.py       feeds the machine and performs its effects; program.py runs it until a signal
store.py        objects as observed, and which resource owns them; queue.py: which resource comes next
plan.py         what differs between wanted and observed objects; applied.py: what was applied, and by whom
pages.py        which pages of pods are read next; page_http.py reads one
reconciler.py   one pass over a resource, as a flow; writes.py: its requests; announcer.py: its events
"""
