"""`fairlead top`: a frame of text from the state of the machine; keys; a terminal that is always restored."""
