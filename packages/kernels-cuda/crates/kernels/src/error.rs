//! Errors of the compute layer. The table of codes is held equal to the one in TypeScript (src/errors.ts) by a test.

use std::fmt;

/// What the caller should do: fix the request, do without, retry later, nothing, replace the file, report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Invalid,
    Unsupported,
    Capacity,
    Cancelled,
    Data,
    Internal,
}

macro_rules! codes {
    ($($variant:ident = $name:literal : $kind:ident,)*) => {
        /// A stable code; its name crosses the native border unchanged.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $($variant,)* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            pub fn kind(self) -> Kind {
                match self { $(Code::$variant => Kind::$kind,)* }
            }
        }
    };
}

codes! {
    StepInvalid = "step_invalid": Invalid,
    ArgumentInvalid = "argument_invalid": Invalid,
    ModelFileDamaged = "model_file_damaged": Data,
    ModelFileUnreadable = "model_file_unreadable": Data,
    ModelFormatUnsupported = "model_format_unsupported": Unsupported,
    ArchitectureUnsupported = "architecture_unsupported": Unsupported,
    TensorTypeUnsupported = "tensor_type_unsupported": Unsupported,
    RotaryUnsupported = "rotary_unsupported": Unsupported,
    BackendUnsupported = "backend_unsupported": Unsupported,
    CellsExceedMemory = "cells_exceed_memory": Capacity,
    StepCancelled = "step_cancelled": Cancelled,
    RuntimeDisposed = "runtime_disposed": Cancelled,
    NativePanic = "native_panic": Internal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    /// What was expected, what came, and what to do.
    pub message: String,
    /// The argument or field at fault, when there is one.
    pub param: Option<String>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: None }
    }

    pub fn at(code: Code, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: Some(param.into()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.param {
            Some(param) => write!(f, "{}: {} ({param})", self.code.name(), self.message),
            None => write!(f, "{}: {}", self.code.name(), self.message),
        }
    }
}

impl std::error::Error for Error {}
