"""Where frames come from and where they end: tables of sources and sinks, and their options."""
