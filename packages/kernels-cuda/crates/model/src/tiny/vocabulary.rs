//! A small byte-level BPE: 256 bytes, merges learnt from a page of text, three control tokens.

use crate::gguf::{Array, Value, Writer};
use std::collections::{BTreeMap, HashSet};

const CORPUS: &str = include_str!("corpus.txt");
const BYTES: usize = 256;
/// The last ids of every vocabulary, in this order.
pub(super) const CONTROL_TOKENS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
/// 256 bytes and the control tokens, without a merge.
pub(super) const SIZE_MIN: usize = BYTES + CONTROL_TOKENS.len();
/// All pairs of bytes are merges then.
pub(super) const SIZE_MAX: usize = SIZE_MIN + BYTES * BYTES;

const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}\
                             {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

const TYPE_NORMAL: i32 = 1;
const TYPE_CONTROL: i32 = 3;

/// Writes the tokenizer's part of the metadata.
pub(super) fn write(writer: &mut Writer, pre: &str, size: usize) {
    let (mut tokens, merges) = learn(size - SIZE_MIN);
    let mut types = vec![TYPE_NORMAL; tokens.len()];
    tokens.extend(CONTROL_TOKENS.map(str::to_owned));
    types.resize(tokens.len(), TYPE_CONTROL);
    let id_of = |text: &str| tokens.iter().position(|token| token == text).map_or(0, |id| id as u32);
    let (end_of_text, end_of_turn) = (id_of(CONTROL_TOKENS[0]), id_of(CONTROL_TOKENS[2]));
    writer
        .set("tokenizer.ggml.model", Value::String("gpt2".into()))
        .set("tokenizer.ggml.pre", Value::String(pre.into()))
        .set("tokenizer.ggml.tokens", Value::Array(Array::String(tokens)))
        .set("tokenizer.ggml.token_type", Value::Array(Array::I32(types)))
        .set("tokenizer.ggml.merges", Value::Array(Array::String(merges)))
        .set("tokenizer.ggml.bos_token_id", Value::U32(end_of_text))
        .set("tokenizer.ggml.eos_token_id", Value::U32(end_of_turn))
        .set("tokenizer.ggml.add_bos_token", Value::Bool(false))
        .set("tokenizer.chat_template", Value::String(CHAT_TEMPLATE.into()));
}

/// Byte-level BPE writes bytes as printable characters: those that are printable stay, the others follow from U+0100 on (GPT-2).
fn byte_characters() -> Vec<(u8, char)> {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let shown = (0..=255u8).filter(printable).map(|byte| (byte, char::from(byte)));
    let hidden = (0..=255u8).filter(|byte| !printable(byte)).zip('\u{100}'..);
    shown.chain(hidden).collect()
}

/// Tokens (bytes, then one for each merge) and merges. Learnt from the corpus while it has pairs, then all pairs of bytes in order.
fn learn(merge_count: usize) -> (Vec<String>, Vec<String>) {
    let characters = byte_characters();
    let mut tokens: Vec<String> = characters.iter().map(|(_, character)| character.to_string()).collect();
    let mut known: HashSet<String> = tokens.iter().cloned().collect();
    let mut merges = Vec::with_capacity(merge_count);
    let mut words = corpus_words(&characters);
    while merges.len() < merge_count {
        let Some((left, right)) = most_frequent_pair(&words, &known) else { break };
        let joined = left.clone() + &right;
        words.iter_mut().for_each(|word| join(word, &left, &right));
        merges.push(format!("{left} {right}"));
        known.insert(joined.clone());
        tokens.push(joined);
    }
    let pairs = (0..BYTES * BYTES).map(|pair| (characters[pair / BYTES].1, characters[pair % BYTES].1));
    let unknown = pairs.filter(|(left, right)| !known.contains(&format!("{left}{right}")));
    for (left, right) in unknown.take(merge_count - merges.len()) {
        merges.push(format!("{left} {right}"));
        tokens.push(format!("{left}{right}"));
    }
    (tokens, merges)
}

/// The corpus cut before each space that follows a word, which no pre-tokenizer joins across.
fn corpus_words(characters: &[(u8, char)]) -> Vec<Vec<String>> {
    let written: BTreeMap<u8, String> = characters.iter().map(|(byte, character)| (*byte, character.to_string())).collect();
    let pieces = CORPUS.split_inclusive(|character: char| !character.is_ascii_alphabetic() && character != ' ');
    let words = pieces.flat_map(|piece| piece.split_inclusive(' ')).map(str::trim_end).filter(|word| word.len() > 1);
    words.map(|word| format!(" {word}").bytes().map(|byte| written[&byte].clone()).collect()).collect()
}

/// Among equals the first in the order of text.
fn most_frequent_pair(words: &[Vec<String>], known: &HashSet<String>) -> Option<(String, String)> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for word in words {
        for pair in word.windows(2) {
            *counts.entry((&pair[0], &pair[1])).or_default() += 1;
        }
    }
    let fresh = counts.into_iter().filter(|((left, right), count)| *count > 1 && !known.contains(&format!("{left}{right}")));
    let best = fresh.min_by_key(|(_, count)| std::cmp::Reverse(*count));
    best.map(|((left, right), _)| (left.to_owned(), right.to_owned()))
}

fn join(word: &mut Vec<String>, left: &str, right: &str) {
    let mut at = 0;
    while at + 1 < word.len() {
        if word[at] == left && word[at + 1] == right {
            let tail = word.remove(at + 1);
            word[at] += &tail;
        }
        at += 1;
    }
}
