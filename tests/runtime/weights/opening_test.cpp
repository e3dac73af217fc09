#include "weights/opening.h"

#include <gtest/gtest.h>

using lf::opening_command;

TEST(opening, names_the_class_of_the_library_that_the_configuration_is_of) {
  EXPECT_EQ(opening_command(R"({"_class_name": "FluxTransformer2DModel", "dtype": "float32"})", "runs/a/model"),
            R"py(python -c "from diffusers import FluxTransformer2DModel as M; M.from_pretrained('runs/a/model')")py");
  EXPECT_EQ(opening_command(R"({"_class_name": "WanModel"})", "m"),
            R"py(python -c "from wan.modules.model import WanModel as M; M.from_pretrained('m')")py");
  EXPECT_EQ(opening_command(R"({"architectures": ["DeepseekV32ForCausalLM"]})", "m"),
            R"py(python -c "from transformers import AutoModelForCausalLM as M; M.from_pretrained('m')")py");
  EXPECT_EQ(opening_command(R"({"architectures": ["Qwen3VLForConditionalGeneration"]})", "m"),
            R"py(python -c "from transformers import AutoModelForImageTextToText as M; M.from_pretrained('m')")py");
  EXPECT_EQ(
      opening_command(R"({"architectures": ["InternVLChatModel"]})", "m"),
      R"py(python -c "from transformers import AutoModel as M; M.from_pretrained('m', trust_remote_code=True)")py");
}

TEST(opening, says_nothing_where_no_class_is_named) {
  for (const char* config : {"{}", "[]", "no JSON", R"({"architectures": []})", R"({"architectures": [3]})",
                             R"({"vision": {"block": "intern_vit"}})"})
    EXPECT_EQ(opening_command(config, "m"), "") << config;
}
