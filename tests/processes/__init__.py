"""Real daemons as processes of their own, killed and stopped."""
