"""ModelProfile objects: measurements of models on setups, converted, merged and stored."""
