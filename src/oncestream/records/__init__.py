"""Record batches to and from bytes."""
