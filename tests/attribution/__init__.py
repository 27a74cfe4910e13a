"""The program that attributes use to pods."""
