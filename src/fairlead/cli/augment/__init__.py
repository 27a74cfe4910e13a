"""`fairlead augment`: slices of servers lent to small devices."""
