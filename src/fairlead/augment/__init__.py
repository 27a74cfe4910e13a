"""Sessions on one machine without a cluster: processes, directories, and shares from the local ledger.

place.py        the folder of a session: what it lends, its keys and its data
make.py         a new session's folder: certificate, tokens, quota
programs.py     the command lines of its programs; pure
keeper.py       starts its programs, and starts them again when they end
control.py      the keeper as a process in the background: start, stop, what it says
application.py  the application as a job of this machine
visit.py        the session's owner asks its store
conditions.py   whether a session is ready, and what to do if it is not; pure
"""
