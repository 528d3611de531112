//! How wide weights and cells lie in memory.

mod support;

use palimpsest_kernels::quant::TensorType;
use palimpsest_kernels::{CellDtype, Level};
use palimpsest_model::config::Architecture;
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::tiny::{TinyModel, TinyTypes};
use support::{open, tiny};

#[test]
fn weights_are_as_wide_as_the_file_has_them_and_cells_as_the_pool_says() {
    for types in TensorType::ALL.iter().copied() {
        let model = TinyModel { embedding_length: 256, feed_forward_length: 512, head_size: 64, ..tiny(Architecture::Llama, 5) };
        let model = TinyModel { types: TinyTypes::All(types), ..model };
        let file = GgufFile::from_bytes(model.bytes().unwrap()).unwrap();
        let bytes: usize = file.header().tensors.iter().map(|tensor| tensor.range.len()).sum();
        for level in palimpsest_kernels::levels().iter().filter(|level| level.level() != Level::Reference) {
            let engine = open(&file, level.level(), CellDtype::F16, 10, 16, 1).engine;
            let memory = engine.memory();
            let rotary: usize = engine.machine().weights.rotaries.iter().map(|rotary| rotary.bytes()).sum();
            let packed = memory.weights - rotary;
            println!("{types:?} on {}: {bytes} bytes in the file, {packed} packed", level.level().name());
            assert!(packed <= bytes + bytes / 16 + 4096, "{types:?}: {packed} of {bytes}");
            let shape = engine.machine().cells.shape();
            assert_eq!(memory.cells, 10 * shape.page_bytes());
            assert_eq!(shape.page_bytes(), 16 * 2 * 2 * (shape.kv_heads * shape.layers * shape.key_size));
        }
    }
}
