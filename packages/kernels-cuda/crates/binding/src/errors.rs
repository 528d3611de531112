//! Errors on their way to JavaScript: code, parameter and message as one JSON text, which `src/native.ts` takes apart again.

use std::any::Any;

use palimpsest_kernels::{Code, Error};

/// Marks a reason that was made here, so that the face can tell it from what napi itself raises.
const MARK: &str = "palimpsest:";

pub fn to_napi(error: Error) -> napi::Error {
    let param = error.param.as_deref().map_or("null".to_owned(), json_text);
    let reason = format!(r#"{MARK}{{"code":"{}","param":{param},"message":{}}}"#, error.code.name(), json_text(&error.message));
    napi::Error::new(napi::Status::GenericFailure, reason)
}

/// What a caught panic says.
pub fn from_panic(payload: Box<dyn Any + Send>) -> Error {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| payload.downcast_ref::<String>().cloned());
    Error::new(Code::NativePanic, format!("the native code panicked: {}", text.unwrap_or_else(|| "without a message".to_owned())))
}

/// Runs `work`; a panic becomes `native_panic`.
pub fn guard<T>(work: impl FnOnce() -> palimpsest_kernels::Result<T>) -> palimpsest_kernels::Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(from_panic(payload)))
}

fn json_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if (control as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
