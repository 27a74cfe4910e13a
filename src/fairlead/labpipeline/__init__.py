"""Pipelines as pods between an edge and a server, the two real nodes of a lab, deployed and measured."""
