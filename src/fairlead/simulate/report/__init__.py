"""What came of a simulation: figures, time series and plots."""
