"""The door to PyAV: video files, live streams and images as arrays, and arrays as images and video."""
