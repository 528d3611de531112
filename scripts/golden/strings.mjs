// The texts that golden ids are made of: fixed ones for what is known to go wrong, and seeded random ones.

/** A small generator (mulberry32), so that the same seed gives the same texts on every machine. */
export function random(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value = (value + Math.imul(value ^ (value >>> 7), value | 61)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) % below;
  };
}

const CODE = [
  "def fib(n: int) -> int:\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n",
  "fn main() {\n\tlet mut xs: Vec<u8> = vec![0x1f, 0b1010, 1_000];\n\txs.iter().map(|x| x << 2).for_each(drop);\r\n}\r\n",
  "#include <stdio.h>\nint main(void){for(int i=0;i<10;++i)printf(\"%d\\n\",i);return 0;}",
  "SELECT a.*, COUNT(*) FROM t AS a WHERE x >= 10 AND y != 'it''s' GROUP BY 1;",
  "const f = async ({a, b = 1, ...rest}) => `${a ?? b}\\u{1F600}`; // don't\n\n\n/* we'll */",
  "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich\", \"days\": [1, 2, 3.5e-7, null, true]}}",
  "<div class=\"x\">&nbsp;<br/>\n  <!-- I've -->\n</div>",
  "\\begin{equation}\n  \\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}\n\\end{equation}",
  "diff --git a/x b/x\n@@ -1,2 +1,3 @@\n-old\n+new\n+    new\n \n",
  "$ curl -s 'http://localhost:8080/v1/models?limit=10&after=a%20b' | jq -r '.data[].id'",
  "a=b+c-d*e/f%g^h|i&j~k<l>m!n?o:p;q,r.s@t#u$v`w\"x'y(z)[1]{2}\\3_4",
];
const PROSE = [
  "The quick brown fox jumps over the lazy dog. It's what we've seen; they'll say he'd won't I'm you're DON'T WE'LL I'M HE'S.",
  "Ein Übermaß an Größe überfällt fünf süße Käfer — „schön“, ›sagte‹ «er».",
  "L'été dernier, l'œuvre d'à côté coûtait 1 234,56 €… c'est-à-dire « trop ».",
  "Съешь же ещё этих мягких французских булок, да выпей чаю. Ёжик №5.",
  "我能吞下玻璃而不伤身体。今天是2024年3月15日，气温－3℃。「你好」《世界》！",
  "私はガラスを食べられます。それは私を傷つけません。ｶﾀｶﾅ　全角スペース　ー〜",
  "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요. ㅋㅋㅋ ㅠㅠ",
  "أنا قادر على أكل الزجاج و هذا لا يؤلمني. السعر ١٢٣٫٤٥ ريال؟",
  "אני יכול לאכול זכוכית וזה לא מזיק לי. שָׁלוֹם",
  "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती। १२३४५",
  "ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ ๑๒๓",
  "Μπορώ να φάω σπασμένα γυαλιά χωρίς να πάθω τίποτα. Άλφα—Ωμέγα·",
  "Tôi có thể ăn thủy tinh mà không hại gì. Nguyễn Thị Ánh Tuyết",
  "ខ្ញុំអាចញុំកញ្ចក់បាន ដោយគ្មានបញ្ហា",
  "Можам да јадам стакло, а не ме штета. ჭამა მინა შემიძლია ԵՍ ԿՐՆԱՄ",
  "a\u0301e\u0300 o\u0302\u0323 Z\u0351\u036b\u0343a\u0328l\u0334g\u0321o\u0322 naïve nai\u0308ve",
];
const EMOJI = [
  "😀😃😄", "👨‍👩‍👧‍👦 family", "🏳️‍🌈🏴‍☠️", "👍🏽 ok👍🏿", "🇩🇪🇫🇷🇯🇵", "1️⃣2️⃣#️⃣", "❤️‍🔥 x", "🧑🏻‍🚀🧑🏿‍🚀", "☺︎☺️", "🫠🫡🪿", "(╯°□°)╯︵ ┻━┻", "¯\\_(ツ)_/¯", "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
];
const SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t", "\u00a0", "\u2003", "\u3000", "\u0085", "\v", "\f", "\u2028", " \n", "\n ", "\u200b", "\ufeff", "\r"];
const CONTROLS = [
  "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>system\n", "<|im_end|>\n", "<tool_call>", "</tool_call>", "<tool_response>", "<repo_name>", "<reponame>",
  "<file_sep>", "<filename>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_sep|>", "<|repo_name|>", "<|vision_start|>", "<|image_pad|>", "[PAD151665]",
  "</s>", "<s>", "<|", "|>", "<|im_", "im_start|>", "<|im_start", "< |im_start|>", "<|IM_START|>", "<|im_start|", "<<|im_end|>>", "<|im_<|im_end|>end|>", "<think>", "</think>",
  "<jupyter_code>", "<empty_output>", "<gh_stars>", "<|eot_id|>", "[INST]", "<bos>", "<unk>",
];
const DIGITS = ["0", "7", "42", "007", "123", "1234", "12345678901234567890", "3.14159", "1,234,567.89", "-1e-9", "0xdeadbeef", "192.168.0.1", "2024-03-15T12:34:56Z", "½¾²³", "①②③", "Ⅷ", "٠١٢", "१२", "𝟘𝟙𝟚", "１２３", "10%", "$5", "#1", "5'11\"", "v1.2.3-rc.4"];

/** Code points that some script or symbol block has, drawn over all planes; unassigned and private ones too, surrogates not. */
function codePoint(pick) {
  const [start, end] = [
    [0x20, 0x7f], [0xa0, 0x250], [0x250, 0x590], [0x590, 0x900], [0x900, 0x1100], [0x1100, 0x1e00], [0x1e00, 0x2c00], [0x2c00, 0x3400], [0x3400, 0xa000],
    [0xa000, 0xd800], [0xe000, 0x10000], [0x10000, 0x11000], [0x11000, 0x17000], [0x1b000, 0x20000], [0x20000, 0x33480], [0xe0000, 0xe0200], [0xf0000, 0x110000],
  ][pick(17)];
  return String.fromCodePoint(start + pick(end - start));
}

/** Bytes taken for UTF-8, what is none replaced: what a client sends that reads a binary file as text. */
function randomBytes(pick) {
  const bytes = Uint8Array.from({ length: 1 + pick(40) }, () => (pick(4) === 0 ? 0x20 + pick(0x5f) : pick(256)));
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

function piece(pick) {
  const from = (list) => list[pick(list.length)];
  switch (pick(12)) {
    case 0: return from(CODE).slice(pick(20), 20 + pick(60));
    case 1: case 2: return [...from(PROSE)].slice(pick(30), 30 + pick(40)).join("");
    case 3: return from(EMOJI);
    case 4: case 5: return from(SPACES).repeat(1 + pick(4));
    case 6: return from(CONTROLS);
    case 7: return from(DIGITS);
    case 8: return Array.from({ length: 1 + pick(12) }, () => codePoint(pick)).join("");
    case 9: return from("'\"!?.,;:-–—()[]{}<>|/\\@#$%^&*_=+~`".split("")).repeat(1 + pick(5));
    case 10: return from(["'s", "'T", "'re", "'VE", "'m", "'lL", "'d", "'", "''", "'x", "’s", "'ſ"]);
    default: return from(["a", "the", "Hello", " world", "HELLO", "foo_bar", "camelCase", "x", "ab".repeat(20), "é", "ß", "ﬁ"]);
  }
}

/** The texts, in a fixed order, none twice. */
export function goldenStrings() {
  const pick = random(20_260_301);
  const texts = ["", "\0", "a\0b", "\0\0\0", ...CODE, ...PROSE, ...EMOJI, ...SPACES, ...CONTROLS, ...DIGITS];
  for (const blank of SPACES) for (const count of [2, 3, 5, 17, 70]) texts.push(blank.repeat(count), `a${blank.repeat(count)}b`, `${blank.repeat(count)}1`, `x${blank.repeat(count)}`);
  for (const letter of ["a", "A", " ", "é", "漢", "😀", "=", "-", "0", "ab", "xyz", "\u0301", "\t"]) for (const count of [30, 45, 333]) texts.push(letter.repeat(count));
  for (const control of CONTROLS) texts.push(`a${control}b`, ` ${control} `, `${control}\n${control}`, `system\n${control}12`);
  for (let index = 0; index < 300; index += 1) texts.push(randomBytes(pick));
  for (let index = 0; index < 300; index += 1) texts.push(Array.from({ length: 24 }, () => codePoint(pick) + ["", "a", " ", "1", "."][pick(5)]).join(""));
  while (texts.length < 2600) texts.push(Array.from({ length: 2 + pick(7) }, () => piece(pick)).join(""));
  return [...new Set(texts.map((text) => text.toWellFormed()))];
}
