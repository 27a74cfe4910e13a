"""ModelProfile objects: what a cluster knows of models on setups, converted, merged and stored."""
