"""From text to a syntax tree, as cel-go parses it."""
