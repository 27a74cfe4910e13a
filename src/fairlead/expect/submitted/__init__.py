"""Model files of submitted workloads: named by their programs, found in volumes, ConfigMaps and images."""
