"""The HTTP API on real stores."""
