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
    let mut add = |tokens: &mut Vec<String>, left: usize, right: usize| {
        let (left, right) = (tokens[left].clone(), tokens[right].clone());
        let fresh = known.insert(format!("{left}{right}"));
        if fresh {
            merges.push(format!("{left} {right}"));
            tokens.push(left + &right);
        }
        fresh
    };
    while tokens.len() < BYTES + merge_count {
        let Some(pair) = most_frequent_pair(&words) else { break };
        // Two pairs may make one text; then the later one joins without a token of its own.
        let joined = if add(&mut tokens, pair.0, pair.1) { tokens.len() - 1 } else { position_of(&tokens, pair) };
        words.iter_mut().for_each(|(word, _)| join(word, pair, joined));
    }
    for pair in 0..BYTES * BYTES {
        if tokens.len() == BYTES + merge_count {
            break;
        }
        add(&mut tokens, pair / BYTES, pair % BYTES);
    }
    (tokens, merges)
}

/// Distinct words of the corpus as tokens, with their counts, cut before each space that follows a word.
fn corpus_words(characters: &[(u8, char)]) -> Vec<(Vec<usize>, usize)> {
    let token_of = |byte: u8| characters.iter().position(|(other, _)| *other == byte).expect("every byte is a token");
    let pieces = CORPUS.split_inclusive(|character: char| !character.is_ascii_alphabetic() && character != ' ');
    let words = pieces.flat_map(|piece| piece.split_inclusive(' ')).map(str::trim_end).filter(|word| word.len() > 1);
    let mut counts: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    for word in words {
        *counts.entry(format!(" {word}").bytes().map(token_of).collect()).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// At least two of them; among equals the first ids.
fn most_frequent_pair(words: &[(Vec<usize>, usize)]) -> Option<(usize, usize)> {
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (word, count) in words {
        for pair in word.windows(2) {
            *counts.entry((pair[0], pair[1])).or_default() += count;
        }
    }
    let repeated = counts.into_iter().filter(|(_, count)| *count > 1);
    repeated.min_by_key(|(_, count)| std::cmp::Reverse(*count)).map(|(pair, _)| pair)
}

fn position_of(tokens: &[String], (left, right): (usize, usize)) -> usize {
    let text = format!("{}{}", tokens[left], tokens[right]);
    tokens.iter().position(|token| *token == text).expect("known texts are tokens")
}

fn join(word: &mut Vec<usize>, (left, right): (usize, usize), joined: usize) {
    let mut at = 0;
    while at + 1 < word.len() {
        if word[at] == left && word[at + 1] == right {
            word[at] = joined;
            word.remove(at + 1);
        }
        at += 1;
    }
}
