"""The results of a simulation: figures, time series and plots."""
