"""detectsched: fair, durable, resource-aware scheduling of OCR and sensitive-word detection."""

__version__ = "0.1.0"
