//! The border to Node: the only crate that knows napi.
