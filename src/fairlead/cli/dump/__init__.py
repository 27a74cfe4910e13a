"""`fairlead debug-dump`: one archive for a fault report."""
