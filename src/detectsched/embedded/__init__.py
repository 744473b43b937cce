"""Everything on one machine: embedded stores, and all processes under one supervisor (`detectsched up`)."""
