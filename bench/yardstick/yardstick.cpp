// llama.cpp as a yardstick: a process that does one measured thing for each line on stdin and answers with one JSON line.
//
//   load FILE CONTEXT THREADS f32|f16|q8_0     -> {"ok":true}
//   prefill ROWS DEPTH                         -> {"ms":…}   ROWS new tokens behind DEPTH cached ones, last row's logits
//   decode TOKENS DEPTH STREAMS                -> {"ms":…}   TOKENS steps of one row for each stream
//   shift DEPTH DROPPED                        -> {"ms":…}   remove DROPPED cells in the middle, move the rest, decode one token
//   multiply TYPE ROWS COLUMNS INPUTS THREADS REPEATS               -> {"ms":…}   median of one product, weights as ggml packs them
//   attend CELL_TYPE HEADS KV_HEADS SIZE CELLS ROWS THREADS REPEATS -> {"ms":…}   median of one attention
//   logits OUT WINDOW TOKEN…                   -> {"ok":true}  f32 logits of all rows, written to OUT; the context empty every WINDOW
//
// Tokens are pseudo-random ids: the time of a row does not depend on which token it is.
#include "llama.h"
#include "parts.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Yardstick {
    llama_model * model = nullptr;
    llama_context * context = nullptr;
    int vocabulary = 0;
    int cached = 0; // cells of sequence 0
    unsigned state = 1;

    llama_token random_token() {
        state = state * 1664525u + 1013904223u;
        return static_cast<llama_token>((state >> 8) % static_cast<unsigned>(vocabulary));
    }
};

ggml_type cell_type(const std::string & name) {
    if (name == "f32") return GGML_TYPE_F32;
    if (name == "q8_0") return GGML_TYPE_Q8_0;
    return GGML_TYPE_F16;
}

bool load(Yardstick & y, std::istringstream & line) {
    std::string file, type;
    int size = 0, threads = 0;
    line >> file >> size >> threads >> type;
    if (y.context != nullptr) llama_free(y.context);
    if (y.model != nullptr) llama_model_free(y.model);
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    y.model = llama_model_load_from_file(file.c_str(), model_params);
    if (y.model == nullptr) return false;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(size);
    params.n_batch = 512;
    params.n_ubatch = 512;
    params.n_seq_max = 4;
    params.kv_unified = true;
    params.n_threads = threads;
    params.n_threads_batch = threads;
    params.type_k = cell_type(type);
    params.type_v = cell_type(type);
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    y.context = llama_init_from_model(y.model, params);
    y.vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(y.model));
    y.cached = 0;
    return y.context != nullptr;
}

/** Decodes `rows` tokens from `position` on in sequence 0, in batches of 512; the last row's logits are asked for. */
bool feed(Yardstick & y, int rows, int position) {
    llama_batch batch = llama_batch_init(512, 0, 1);
    bool fine = true;
    for (int done = 0; done < rows && fine;) {
        const int take = std::min(512, rows - done);
        batch.n_tokens = take;
        for (int i = 0; i < take; i++) {
            batch.token[i] = y.random_token();
            batch.pos[i] = position + done + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = done + i == rows - 1;
        }
        fine = llama_decode(y.context, batch) == 0;
        done += take;
    }
    llama_batch_free(batch);
    return fine;
}

/** Brings sequence 0 to exactly `depth` cells. */
bool settle(Yardstick & y, int depth) {
    llama_memory_t memory = llama_get_memory(y.context);
    for (int stream = 1; stream < 4; stream++) llama_memory_seq_rm(memory, stream, -1, -1);
    if (y.cached > depth) {
        llama_memory_seq_rm(memory, 0, depth, -1);
        y.cached = depth;
    }
    const bool fine = y.cached == depth || feed(y, depth - y.cached, y.cached);
    y.cached = depth;
    return fine;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double prefill(Yardstick & y, std::istringstream & line) {
    int rows = 0, depth = 0;
    line >> rows >> depth;
    if (!settle(y, depth)) return -1;
    const auto start = std::chrono::steady_clock::now();
    if (!feed(y, rows, depth)) return -1;
    y.cached = depth + rows;
    return milliseconds_since(start);
}

double decode(Yardstick & y, std::istringstream & line) {
    int tokens = 0, depth = 0, streams = 1;
    line >> tokens >> depth >> streams;
    if (!settle(y, depth)) return -1;
    llama_memory_t memory = llama_get_memory(y.context);
    for (int stream = 1; stream < streams; stream++) llama_memory_seq_cp(memory, 0, stream, -1, -1);
    llama_batch batch = llama_batch_init(streams, 0, 1);
    bool fine = true;
    const auto start = std::chrono::steady_clock::now();
    for (int t = 0; t < tokens && fine; t++) {
        batch.n_tokens = streams;
        for (int stream = 0; stream < streams; stream++) {
            batch.token[stream] = y.random_token();
            batch.pos[stream] = depth + t;
            batch.n_seq_id[stream] = 1;
            batch.seq_id[stream][0] = stream;
            batch.logits[stream] = true;
        }
        fine = llama_decode(y.context, batch) == 0;
        for (int stream = 0; stream < streams; stream++) llama_get_logits_ith(y.context, stream);
    }
    const double ms = milliseconds_since(start);
    llama_batch_free(batch);
    y.cached = depth + tokens;
    return fine ? ms : -1;
}

double shift(Yardstick & y, std::istringstream & line) {
    int depth = 0, dropped = 0;
    line >> depth >> dropped;
    if (!settle(y, depth)) return -1;
    llama_memory_t memory = llama_get_memory(y.context);
    const int first = (depth - dropped) / 2;
    const auto start = std::chrono::steady_clock::now();
    llama_memory_seq_rm(memory, 0, first, first + dropped);
    llama_memory_seq_add(memory, 0, first + dropped, -1, -dropped);
    if (!feed(y, 1, depth - dropped)) return -1;
    const double ms = milliseconds_since(start);
    llama_memory_clear(memory, false);
    y.cached = 0;
    return ms;
}

bool logits(Yardstick & y, std::istringstream & line) {
    std::string out;
    size_t window = 0;
    line >> out >> window;
    std::vector<llama_token> tokens;
    for (int token = 0; line >> token;) tokens.push_back(token);
    y.cached = 0;
    std::ofstream file(out, std::ios::binary);
    llama_batch batch = llama_batch_init(512, 0, 1);
    bool fine = true;
    for (size_t done = 0; done < tokens.size() && fine;) {
        const size_t depth = done % window;
        if (depth == 0) llama_memory_clear(llama_get_memory(y.context), false);
        const int take = static_cast<int>(std::min({static_cast<size_t>(512), tokens.size() - done, window - depth}));
        batch.n_tokens = take;
        for (int i = 0; i < take; i++) {
            batch.token[i] = tokens[done + static_cast<size_t>(i)];
            batch.pos[i] = static_cast<llama_pos>(depth) + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = true;
        }
        fine = llama_decode(y.context, batch) == 0;
        for (int i = 0; i < take && fine; i++) {
            file.write(reinterpret_cast<const char *>(llama_get_logits_ith(y.context, i)), static_cast<std::streamsize>(sizeof(float)) * y.vocabulary);
        }
        done += static_cast<size_t>(take);
    }
    llama_batch_free(batch);
    llama_memory_clear(llama_get_memory(y.context), false);
    return fine && file.good();
}

} // namespace

int main() {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    Yardstick y;
    for (std::string text; std::getline(std::cin, text);) {
        std::istringstream line(text);
        std::string command;
        line >> command;
        if (command == "load") std::cout << "{\"ok\":" << (load(y, line) ? "true" : "false") << "}" << std::endl;
        else if (command == "multiply") std::cout << "{\"ms\":" << parts::multiply(line) << "}" << std::endl;
        else if (command == "attend") std::cout << "{\"ms\":" << parts::attend(line) << "}" << std::endl;
        else if (y.context == nullptr) std::cout << "{\"ok\":false}" << std::endl;
        else if (command == "prefill") std::cout << "{\"ms\":" << prefill(y, line) << "}" << std::endl;
        else if (command == "decode") std::cout << "{\"ms\":" << decode(y, line) << "}" << std::endl;
        else if (command == "shift") std::cout << "{\"ms\":" << shift(y, line) << "}" << std::endl;
        else if (command == "logits") std::cout << "{\"ok\":" << (logits(y, line) ? "true" : "false") << "}" << std::endl;
        else std::cout << "{\"ok\":false}" << std::endl;
    }
    return 0;
}
