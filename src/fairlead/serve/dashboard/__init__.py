"""The dashboard's server: its page, its API and its streams of events, for what each viewer may see."""
