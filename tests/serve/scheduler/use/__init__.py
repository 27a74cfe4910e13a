"""Sharing by measured use."""
