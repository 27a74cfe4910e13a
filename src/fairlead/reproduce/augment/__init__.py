"""The jobs of K-RAF: images to classify and documents to index, on a device, a server and both.

published.py   what the paper reports, and what is physically possible
images.py      synthetic images, and the detector that reads them
detector.py    a detector of the zoo in ONNX Runtime or PyTorch
documents.py   synthetic documents in batches
index.py       the door to tantivy
service.py     a search service of the server, whose bulk loads are durable when it answers
work.py        one worker by itself, without the framework
function.py    the same work as a function of a split job, paced to the rate of a machine
session.py     a session of this machine with a device and a server's worker, as people start them
overhead.py    what the framework itself costs, by the bare command
experiment.py  the arrangements, measured in turn
"""
