"""Text: read, clean, split, tokenize, store, batch."""
