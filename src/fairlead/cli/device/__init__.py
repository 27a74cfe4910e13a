"""`fairlead device`: this machine as a device of a session."""
