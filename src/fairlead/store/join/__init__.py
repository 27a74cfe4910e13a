"""Devices join a store below /.fairlead/: invites become credentials, which rotate; devices report."""
