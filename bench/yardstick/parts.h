// ggml's products and attention alone, on its own thread pool: what llama.cpp runs inside a step.
#pragma once

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

namespace parts {

/** Type of a name as ggml prints it, in lower or upper case; GGML_TYPE_COUNT: there is none. */
inline ggml_type type_of(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        const char * known = ggml_type_name(static_cast<ggml_type>(type));
        std::string lower = known == nullptr ? "" : known;
        std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
        if (lower == name) return static_cast<ggml_type>(type);
    }
    return GGML_TYPE_COUNT;
}

/** A backend with threads that stay. */
struct Machine {
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
    ggml_threadpool_t pool;

    explicit Machine(int threads) {
        ggml_threadpool_params params = ggml_threadpool_params_default(threads);
        pool = ggml_threadpool_new(&params);
        ggml_backend_cpu_set_n_threads(backend, threads);
        ggml_backend_cpu_set_threadpool(backend, pool);
    }
    Machine(const Machine &) = delete;
    Machine & operator=(const Machine &) = delete;
    ~Machine() {
        ggml_backend_free(backend);
        ggml_threadpool_free(pool);
    }
};

inline std::vector<float> numbers(size_t count) {
    std::vector<float> out(count);
    for (size_t i = 0; i < count; i++) out[i] = std::sin(static_cast<float>(i) * 1.7f);
    return out;
}

inline void fill(ggml_tensor * tensor) {
    const std::vector<float> values = numbers(static_cast<size_t>(ggml_nelements(tensor)));
    std::vector<char> bytes(ggml_nbytes(tensor));
    if (tensor->type == GGML_TYPE_F32) std::copy_n(reinterpret_cast<const char *>(values.data()), bytes.size(), bytes.data());
    else ggml_quantize_chunk(tensor->type, values.data(), bytes.data(), 0, ggml_nelements(tensor) / tensor->ne[0], tensor->ne[0], nullptr);
    ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
}

/** Gives `weights` the first of ggml's own layouts for this processor that can run `node` (repacked blocks), or the plain one. */
inline ggml_backend_buffer_t place(Machine & machine, ggml_context * context, ggml_tensor * weights, ggml_tensor * node) {
    const auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(machine.device), "ggml_backend_dev_get_extra_bufts"));
    for (ggml_backend_buffer_type_t * kind = extra == nullptr ? nullptr : extra(machine.device); kind != nullptr && *kind != nullptr; kind++) {
        ggml_backend_buffer_t empty = ggml_backend_buft_alloc_buffer(*kind, 0);
        weights->buffer = empty;
        const bool runs = ggml_backend_dev_supports_op(machine.device, node);
        weights->buffer = nullptr;
        ggml_backend_buffer_free(empty);
        if (runs) return ggml_backend_alloc_ctx_tensors_from_buft(context, *kind);
    }
    return ggml_backend_alloc_ctx_tensors(context, machine.backend);
}

/** Median milliseconds of `repeats` runs of a graph, after one more. */
inline double time_of(Machine & machine, ggml_cgraph * graph, int repeats) {
    std::vector<double> times;
    for (int i = 0; i <= repeats; i++) {
        const auto start = std::chrono::steady_clock::now();
        if (ggml_backend_graph_compute(machine.backend, graph) != GGML_STATUS_SUCCESS) return -1;
        const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        if (i > 0) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

inline ggml_context * context_of(size_t tensors) {
    return ggml_init({ggml_tensor_overhead() * tensors + ggml_graph_overhead(), nullptr, true});
}

/** multiply TYPE ROWS COLUMNS INPUTS THREADS REPEATS */
inline double multiply(std::istringstream & line) {
    std::string name;
    int rows = 0, columns = 0, inputs = 0, threads = 0, repeats = 0;
    line >> name >> rows >> columns >> inputs >> threads >> repeats;
    const ggml_type type = type_of(name);
    if (type == GGML_TYPE_COUNT || repeats < 1) return -1;
    Machine machine(threads);
    ggml_context * of_weights = context_of(1);
    ggml_context * of_rest = context_of(3);
    ggml_tensor * weights = ggml_new_tensor_2d(of_weights, type, columns, rows);
    ggml_tensor * x = ggml_new_tensor_2d(of_rest, GGML_TYPE_F32, columns, inputs);
    ggml_tensor * out = ggml_mul_mat(of_rest, weights, x);
    ggml_backend_buffer_t weight_bytes = place(machine, of_weights, weights, out);
    ggml_backend_buffer_t rest_bytes = ggml_backend_alloc_ctx_tensors(of_rest, machine.backend);
    fill(weights);
    fill(x);
    ggml_cgraph * graph = ggml_new_graph(of_rest);
    ggml_build_forward_expand(graph, out);
    const double ms = time_of(machine, graph, repeats);
    ggml_backend_buffer_free(weight_bytes);
    ggml_backend_buffer_free(rest_bytes);
    ggml_free(of_weights);
    ggml_free(of_rest);
    return ms;
}

/** attend CELL_TYPE HEADS KV_HEADS SIZE CELLS ROWS THREADS REPEATS: every row reads every cell; keys and values of a head lie together. */
inline double attend(std::istringstream & line) {
    std::string name;
    int heads = 0, kv_heads = 0, size = 0, cells = 0, rows = 0, threads = 0, repeats = 0;
    line >> name >> heads >> kv_heads >> size >> cells >> rows >> threads >> repeats;
    const ggml_type type = type_of(name);
    if (type == GGML_TYPE_COUNT || repeats < 1) return -1;
    Machine machine(threads);
    ggml_context * context = context_of(5);
    ggml_tensor * queries = ggml_new_tensor_3d(context, GGML_TYPE_F32, size, rows, heads);
    ggml_tensor * keys = ggml_new_tensor_3d(context, type, size, cells, kv_heads);
    ggml_tensor * values = ggml_new_tensor_3d(context, type, size, cells, kv_heads);
    ggml_tensor * out = ggml_flash_attn_ext(context, queries, keys, values, nullptr, 1.0f / std::sqrt(static_cast<float>(size)), 0.0f, 0.0f);
    ggml_backend_buffer_t bytes = ggml_backend_alloc_ctx_tensors(context, machine.backend);
    for (ggml_tensor * tensor : {queries, keys, values}) fill(tensor);
    ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, out);
    const double ms = time_of(machine, graph, repeats);
    ggml_backend_buffer_free(bytes);
    ggml_free(context);
    return ms;
}

} // namespace parts
