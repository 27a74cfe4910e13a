"""A live cluster as tables: objects of the API server in, rows out; `serve/dashboard/cluster` feeds it."""
