//! Keys of the metadata under the architecture's name, with bounds.

use crate::gguf::{Header, Value};
use palimpsest_kernels::{Code, Error, Result};

/// Largest size that any key may give: sizes are multiplied with each other, and tables are made of them.
pub(super) const SIZE_MAX: usize = 1 << 24;

/// Reads `<architecture>.<key>`.
pub(super) struct Keys<'a> {
    pub header: &'a Header,
    pub prefix: &'a str,
}

impl<'a> Keys<'a> {
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }

    pub(super) fn damaged(&self, key: &str, what: String) -> Error {
        let name = self.name(key);
        Error::at(Code::ModelFileDamaged, &name, format!("{name} {what}"))
    }

    /// At most [`SIZE_MAX`].
    pub(super) fn size(&self, key: &str) -> Result<Option<usize>> {
        match self.header.size(&self.name(key))? {
            Some(size) if size > SIZE_MAX => Err(self.damaged(key, format!("is {size}, expected at most {SIZE_MAX}"))),
            size => Ok(size),
        }
    }

    /// At least 1, and must be there.
    pub(super) fn required_size(&self, key: &str) -> Result<usize> {
        match self.size(key)? {
            Some(0) => Err(self.damaged(key, "is 0".into())),
            Some(size) => Ok(size),
            None => Err(Header::missing(&self.name(key))),
        }
    }

    /// A size that a file may give once or once for each layer. Errors: `architecture_unsupported` where layers differ.
    pub(super) fn layer_size(&self, key: &str, layers: usize) -> Result<Option<usize>> {
        let name = self.name(key);
        let Some(Value::Array(array)) = self.header.value(&name) else { return self.size(key) };
        let sizes = array.to_u64().filter(|sizes| sizes.len() == layers);
        let sizes = sizes.ok_or_else(|| self.damaged(key, format!("is an array, expected {layers} whole numbers")))?;
        if sizes.iter().any(|size| *size != sizes[0]) {
            let message = format!("{name} differs between layers, which is not handled");
            return Err(Error::at(Code::ArchitectureUnsupported, name, message));
        }
        match usize::try_from(sizes[0]) {
            Ok(size) if size <= SIZE_MAX => Ok(Some(size)),
            _ => Err(self.damaged(key, format!("is {}, expected at most {SIZE_MAX}", sizes[0]))),
        }
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>> {
        self.header.float(&self.name(key))
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<&'a str>> {
        self.header.string(&self.name(key))
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.header.value(&self.name(key))
    }
}
