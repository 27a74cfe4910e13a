"""Shape rules of operators, by the kind of operator."""
