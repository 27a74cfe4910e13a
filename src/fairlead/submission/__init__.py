"""The side that submits a job over many inputs: it names them, uploads what is wanted, and fetches results.

sources.py follow.py   inputs as they are found below a folder or in a list; as they appear
reading.py             their digests, a few hundred ahead
feeder.py uploading.py names them to the coordinator, and uploads what workers elsewhere need
collecting.py          results into a folder, as they are committed
client.py doors.py     what the coordinator is asked; as whom
places.py              where the store has the files of a job
"""
