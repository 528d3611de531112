//! The naive replay: an independent, slow and obvious computation of the logits of an edited log.
