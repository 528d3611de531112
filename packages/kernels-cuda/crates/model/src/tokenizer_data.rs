//! What a tokenizer needs, as the model file has it.

use crate::gguf::{Array, GgufFile, Header};
use palimpsest_kernels::{Code, Error, Result};

/// Vocabulary, merges and special tokens. The same shape as `TokenizerData` in src/runtime.ts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerData {
    /// `tokenizer.ggml.model`: "gpt2" is byte-level BPE.
    pub model: String,
    /// `tokenizer.ggml.pre`: the pre-tokenizer, "" when absent.
    pub pre: String,
    pub tokens: Vec<String>,
    /// 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; one for each token.
    pub token_types: Vec<i32>,
    /// Best first: "left right".
    pub merges: Vec<String>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    /// End of turn: the file's id, or the control token that is known by its text.
    pub eot: Option<u32>,
    pub add_bos: bool,
    pub chat_template: Option<String>,
}

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Texts by which a model's end of turn is known where its file gives no id.
const END_OF_TURN: &[&str] = &["<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>"];

/// Pre-tokenizers whose models begin every text with BOS where the file does not say (llama.cpp's table).
const PRE_WITH_BOS: &[&str] =
    &["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken", "chameleon"];

impl TokenizerData {
    /// Errors: `model_file_damaged` that names the key.
    pub fn from_gguf(file: &GgufFile) -> Result<Self> {
        let header = file.header();
        let text = |key: &str| header.string(key).map(|text| text.map(str::to_owned));
        let missing = |key: &'static str| move || Header::missing(key);
        let model = text("tokenizer.ggml.model")?.ok_or_else(missing("tokenizer.ggml.model"))?;
        let pre = text("tokenizer.ggml.pre")?.unwrap_or_default();
        let tokens = header.strings("tokenizer.ggml.tokens")?.ok_or_else(missing("tokenizer.ggml.tokens"))?.to_vec();
        let token_types = read_types(header, tokens.len())?;
        let merges = header.strings("tokenizer.ggml.merges")?.unwrap_or_default().to_vec();
        if let Some(wrong) = merges.iter().find(|merge| !is_merge(merge)) {
            let message = format!("tokenizer.ggml.merges has {wrong:?}, expected two pieces with a space between them");
            return Err(Error::at(Code::ModelFileDamaged, "tokenizer.ggml.merges", message));
        }
        let id = |key: &str| read_id(header, key, tokens.len());
        let eot = match id("tokenizer.ggml.eot_token_id")? {
            Some(eot) => Some(eot),
            None => find_end_of_turn(&tokens, &token_types),
        };
        let add_bos = match header.bool("tokenizer.ggml.add_bos_token")? {
            Some(add_bos) => add_bos,
            None => model == "llama" || PRE_WITH_BOS.contains(&pre.as_str()),
        };
        let (bos, eos) = (id("tokenizer.ggml.bos_token_id")?, id("tokenizer.ggml.eos_token_id")?);
        Ok(Self { model, pre, token_types, merges, bos, eos, eot, add_bos, chat_template: text("tokenizer.chat_template")?, tokens })
    }
}

fn read_types(header: &Header, tokens: usize) -> Result<Vec<i32>> {
    const KEY: &str = "tokenizer.ggml.token_type";
    let damaged = |what: String| Error::at(Code::ModelFileDamaged, KEY, format!("{KEY} {what}"));
    match header.array(KEY)? {
        None => Ok(vec![NORMAL; tokens]),
        Some(Array::I32(types)) if types.len() == tokens => match types.iter().find(|kind| !(0..=6).contains(*kind)) {
            Some(wrong) => Err(damaged(format!("has a type {wrong}, expected 0 to 6"))),
            None => Ok(types.clone()),
        },
        Some(Array::I32(types)) => Err(damaged(format!("has {} types for {tokens} tokens", types.len()))),
        Some(_) => Err(damaged("is no array of i32".into())),
    }
}

/// Two pieces with a space between them; a piece may begin with one.
fn is_merge(merge: &str) -> bool {
    merge.char_indices().skip(1).any(|(at, char)| char == ' ' && at + 1 < merge.len())
}

fn read_id(header: &Header, key: &str, tokens: usize) -> Result<Option<u32>> {
    match header.size(key)? {
        Some(id) if id >= tokens => {
            Err(Error::at(Code::ModelFileDamaged, key, format!("{key} is {id}, the vocabulary has {tokens} tokens")))
        }
        id => Ok(id.map(|id| id as u32)),
    }
}

fn find_end_of_turn(tokens: &[String], token_types: &[i32]) -> Option<u32> {
    let special = |at: usize| matches!(token_types[at], CONTROL | USER_DEFINED);
    let find = |text: &&str| (0..tokens.len()).find(|&at| tokens[at] == **text && special(at));
    END_OF_TURN.iter().find_map(find).map(|at| at as u32)
}
