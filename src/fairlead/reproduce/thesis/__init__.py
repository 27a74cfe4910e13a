"""The application of the thesis on edge and server, measured with this machine and two emulated hosts."""
