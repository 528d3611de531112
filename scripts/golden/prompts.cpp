// Renders chats with llama.cpp's own template engine and tokenises them, for prompts.mjs. Reads one JSON object a line,
// {"messages": …, "tools": …, "add_generation_prompt": …}, and writes one a line, {"prompt": …, "ids": […]} or {"error": …}.

#include "chat.h"
#include "common.h"
#include "llama.h"

#include <iostream>

int main(int argc, char ** argv) {
    if (argc != 2) {
        std::cerr << "usage: prompts MODEL < CASES\n";
        return 2;
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    llama_model * model = llama_model_load_from_file(argv[1], params);
    if (model == nullptr) {
        std::cerr << "cannot load " << argv[1] << "\n";
        return 1;
    }
    const llama_vocab * vocab = llama_model_get_vocab(model);
    const common_chat_templates_ptr templates = common_chat_templates_init(model, "");

    for (std::string line; std::getline(std::cin, line);) {
        common_json answer = common_json::object();
        try {
            const common_json request = common_json::parse(line);
            common_chat_templates_inputs inputs;
            inputs.messages = common_chat_msgs_parse_oaicompat(request.at("messages"));
            if (request.contains("tools")) {
                inputs.tools = common_chat_tools_parse_oaicompat(request.at("tools"));
            }
            inputs.add_generation_prompt = request.at("add_generation_prompt").get<bool>();
            const std::string prompt = common_chat_templates_apply(templates.get(), inputs).prompt;
            common_json ids = common_json::array();
            for (const llama_token id : common_tokenize(vocab, prompt, /* add_special */ true, /* parse_special */ true)) {
                ids.push_back(id);
            }
            answer["prompt"] = prompt;
            answer["ids"] = ids;
        } catch (const std::exception & error) {
            answer["error"] = std::string(error.what());
        }
        std::cout << answer.dump() << std::endl;
    }
    llama_model_free(model);
    return 0;
}
