"""Copying one volume to another, and proving that both hold the same: for claims that are replaced.

listing.py  what is below a folder
entries.py  one file, link or folder, copied whole or not at all
passes.py   the first pass, while programs write; the last one, which ends only when nothing differs
program.py  `python3 -m fairlead.store.copying`, what the pods of a copy run
"""
