//! Writes a model file again with every matrix in another type: `cargo run --release --example requantize -- FILE TYPE OUT`.
//!
//! For benches that want one model in several types. Numbers are decoded to f32 and encoded from there, so the new file is at most as
//! good as the old one.

use std::path::Path;

use palimpsest_kernels::quant::TensorType;
use palimpsest_model::gguf::{GgufFile, Value, Writer};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, file, name, out] = arguments.as_slice() else { panic!("FILE TYPE OUT") };
    let tensor_type = TensorType::from_name(name).expect("a tensor type");
    let file = GgufFile::open(Path::new(file)).expect("a GGUF file");
    let header = file.header();
    let mut writer = Writer::new();
    let mut keys: Vec<&str> = header.keys().filter(|key| *key != "general.alignment" && *key != "general.file_type").collect();
    keys.sort_unstable();
    for key in keys {
        writer.set(key, header.value(key).expect("a key of the file").clone());
    }
    if tensor_type == TensorType::Q8_0 {
        writer.set("general.file_type", Value::U32(7)); // llama.cpp's number for files that are mostly Q8_0
    }
    for tensor in &header.tensors {
        let numbers = file.decode(tensor).expect("whole blocks");
        // Norms and biases stay as they are.
        let wanted = if tensor.shape.len() > 1 { tensor_type } else { tensor.tensor_type };
        writer.tensor(tensor.name.as_str(), &tensor.shape, wanted, &numbers).expect("finite numbers");
    }
    // A file that stands at its name is whole.
    let part = format!("{out}.part");
    std::fs::write(&part, writer.finish()).expect("room for the file");
    std::fs::rename(&part, out).expect("a name in the same folder");
}
