"""The command line itself: parser, shared options, completion, extras."""
