"""The embedded stores, and `detectsched up`."""
