"""Published experiments, played in the simulator beside their published figures."""
