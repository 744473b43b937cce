"""Programs for those who work on detectsched; nothing here is shipped."""
