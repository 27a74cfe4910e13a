"""Models that this project makes itself: known networks and a pack for calibration, with no downloads."""
