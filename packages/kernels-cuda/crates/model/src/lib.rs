//! Models: files, architectures, the forward step.
