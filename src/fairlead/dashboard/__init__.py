"""What the dashboard answers: tables of rows with revisions, and answers about one object.

A source fills a `Board`; the server in `serve/dashboard` reads it, for what a viewer may see.
"""
