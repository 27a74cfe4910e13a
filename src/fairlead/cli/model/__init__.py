"""Commands about models: analyze, estimate, calibrate, profiles, bench."""
