//! Writes the small models of tests/llama_cpp.rs into a folder, for scripts/golden_llama_cpp.mjs.

#[path = "../tests/support/variants.rs"]
mod variants;

fn main() {
    let Some(folder) = std::env::args().nth(1).map(std::path::PathBuf::from) else {
        eprintln!("usage: tiny_models FOLDER");
        std::process::exit(2);
    };
    for (name, model) in variants::variants() {
        let path = folder.join(format!("{name}.gguf"));
        let written = model
            .bytes()
            .map_err(|error| error.to_string())
            .and_then(|bytes| std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display())));
        if let Err(message) = written {
            eprintln!("{message}");
            std::process::exit(1);
        }
    }
}
