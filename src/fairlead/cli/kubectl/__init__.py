"""`kubectl fairlead`: the commands about clusters as a plugin of kubectl, with kubectl's own flags."""
