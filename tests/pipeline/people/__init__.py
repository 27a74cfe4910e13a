"""The example that counts people and vehicles."""
