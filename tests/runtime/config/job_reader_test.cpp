#include <gmock/gmock.h>
#include <sys/stat.h>

#include "runtime/config/job_file.h"

namespace lf::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

using JobReader = JobFile;

TEST_F(JobReader, every_type_of_value_arrives) {
  const JobConfig config = load(R"(
[job]
name = "first"
seed = 7
epochs = 1
[model]
family = "tiny"
config = "c/config.json"
freeze = ["vision", "*.norm.*"]
[model.options]
window = 4
names = ["a", "b"]
deep = {x = 1.5, y = true}
[data]
path = ["a.jsonl", "/abs/b.jsonl"]
packing = false
max_bad = 0.25
)");
  EXPECT_EQ(config.job.name, "first");
  EXPECT_EQ(config.job.seed, 7u);
  EXPECT_EQ(config.job.epochs, 1.0);
  EXPECT_THAT(config.model.freeze, ElementsAre("vision", "*.norm.*"));
  EXPECT_THAT(config.model.options,
              ElementsAre(Pair("deep", R"({"x":1.5,"y":true})"), Pair("names", R"(["a","b"])"), Pair("window", "4")));
  EXPECT_THAT(config.data.path, ElementsAre(folder_ / "a.jsonl", "/abs/b.jsonl"));
  EXPECT_FALSE(config.data.packing);
  EXPECT_EQ(config.data.max_bad, 0.25);
}

TEST_F(JobReader, tables_of_a_list_arrive_with_what_they_say_and_are_checked_key_by_key) {
  const JobConfig config = load(kMinimal + R"(
[lora]
targets = ["language"]
[[lora.groups]]
targets = "vision"
rank = 4
[[optimizer.groups]]
parameters = ["*.lora_B.*"]
learning_rate = 1e-3
)");
  ASSERT_EQ(config.lora.groups.size(), 1u);
  EXPECT_THAT(config.lora.groups[0].targets, ElementsAre("vision"));
  EXPECT_EQ(config.lora.groups[0].rank, 4);
  EXPECT_FALSE(config.lora.groups[0].alpha.has_value());
  ASSERT_EQ(config.optimizer.groups.size(), 1u);
  EXPECT_EQ(config.optimizer.groups[0].learning_rate, 1e-3);
  const auto of = [this](const std::string& text) { return refusal(kMinimal + text).second; };
  EXPECT_THAT(of("[[optimizer.groups]]\nparameters = []\nlearning_rat = 1\n"),
              HasSubstr("optimizer.groups: \"learning_rat\" is unknown; did you mean learning_rate?"));
  EXPECT_THAT(of("[[optimizer.groups]]\nparameters = []\nmomentum = 1\n"),
              HasSubstr("optimizer.groups: \"momentum\" is unknown; each of its tables has parameters, learning_rate"));
  EXPECT_THAT(of("[[lora.groups]]\ntargets = [\"a\"]\nrank = 0\n"),
              HasSubstr("lora.groups.rank must be in [1, 65536]"));
  EXPECT_THAT(of("[lora]\ngroups = [3]\n"), HasSubstr("expected a list of tables"));
  EXPECT_THAT(of("[lora]\nrank = 4\n"), HasSubstr("lora.rank has no effect without adapters"));
}

TEST_F(JobReader, an_option_that_another_makes_meaningless_is_refused_and_its_default_is_not) {
  for (const auto& [text, told] : std::vector<std::pair<std::string, std::string>>{
           {"[schedule]\nname = \"cosine\"\ndecay_fraction = 0.3\n",
            "schedule.decay_fraction has no effect where schedule.name is cosine; set schedule.name = \"wsd\""},
           {"[schedule]\nname = \"constant\"\nfinal_fraction = 0.3\n",
            "schedule.final_fraction has no effect where schedule.name is constant"},
           {"[checkpoint]\nexport_model = false\nexport_dtype = \"bf16\"\n",
            "checkpoint.export_dtype has no effect where checkpoint.export_model is false"},
           {"[optimizer]\non_nonfinite = \"stop\"\nmax_skipped = 3\n",
            "optimizer.max_skipped has no effect where optimizer.on_nonfinite is stop"}})
    EXPECT_THAT(refusal(kMinimal + text).second, HasSubstr(told));
  load(kMinimal + "[schedule]\nname = \"constant\"\nfinal_fraction = 0.1\ndecay_fraction = 0.2\n");
}

TEST_F(JobReader, an_empty_text_is_told_where_it_stands) {
  std::string text = kMinimal;
  text.replace(text.find("\"train.jsonl\""), 13, "[\"train.jsonl\", \"\"]");
  EXPECT_THAT(message(text), HasSubstr("job.toml:7:8: data.path: expected a path in quotes, or a list of them, got an "
                                       "empty text in it"));
  text = kMinimal;
  text.replace(text.find("\"config.json\""), 13, "\"\"");
  EXPECT_THAT(message(text), HasSubstr("job.toml:5:10: model.path or model.config is required"));
}

TEST_F(JobReader, a_wrong_key_in_one_of_its_tables_hides_no_other_mistake_and_brings_none_that_follows_from_it) {
  const std::string said = refusal(kMinimal + R"(
[[optimizer.groups]]
parameters = ["a"]
learning_rat = 1e-3
weight_decay = -1
[[optimizer.groups]]
parameters = ["b"]
[[optimizer.groups]]
learning_rate = 1e-3
[[lora.groups]]
target = ["c"]
rank = 0
)")
                               .second;
  EXPECT_THAT(said, HasSubstr("\"learning_rat\" is unknown"));
  EXPECT_THAT(said, HasSubstr("optimizer.groups.weight_decay must be"));
  EXPECT_THAT(said, HasSubstr("optimizer.groups: table 2: says neither learning_rate nor weight_decay"));
  EXPECT_THAT(said, HasSubstr("optimizer.groups: table 3: parameters is required"));
  EXPECT_THAT(said, HasSubstr("lora.groups: \"target\" is unknown; did you mean targets?"));
  EXPECT_THAT(said, HasSubstr("lora.groups.rank must be in"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 5) << said;
}

TEST_F(JobReader, what_is_not_said_has_the_default_of_job_h) {
  const JobConfig config = load(kMinimal);
  const JobConfig defaults;
  EXPECT_EQ(config.optimizer.beta2, defaults.optimizer.beta2);
  EXPECT_EQ(config.data.max_tokens, defaults.data.max_tokens);
  EXPECT_EQ(config.checkpoint.export_dtype, defaults.checkpoint.export_dtype);
  EXPECT_EQ(config.job.name, "job");
  EXPECT_EQ(config.job.output, std::filesystem::current_path() / "runs" / "job");
}

TEST_F(JobReader, an_unknown_key_is_refused_with_its_place_and_the_nearest_name) {
  const auto [exit, message] = refusal(kMinimal + "max_tokenz = 5\n");
  EXPECT_EQ(exit, Exit::kConfig);
  EXPECT_EQ(message, "job.toml:8:1: data.max_tokenz is unknown; did you mean data.max_tokens?");
}

TEST_F(JobReader, a_key_in_the_wrong_table_is_pointed_to_the_right_one) {
  EXPECT_EQ(message(kMinimal + "learning_rate = 1e-4\n"),
            "job.toml:8:1: data.learning_rate is unknown; did you mean optimizer.learning_rate?");
}

TEST_F(JobReader, a_key_unlike_any_other_is_answered_with_what_the_table_has) {
  EXPECT_EQ(message(kMinimal + "[memory]\nzzzzzz = 1\n"),
            "job.toml:9:1: memory.zzzzzz is unknown; [memory] has recompute");
}

TEST_F(JobReader, a_table_given_as_if_it_were_an_option_is_answered_with_its_keys) {
  EXPECT_EQ(message(kMinimal, {"memory=3"}), "--set memory=3: memory is a table, not an option; it has recompute");
}

TEST_F(JobReader, a_setting_that_is_no_utf8_is_refused) {
  EXPECT_THAT(message(kMinimal, {"data.path=/tmp/\xff\xfe"}), HasSubstr("expected UTF-8"));
  EXPECT_EQ(message(kMinimal, {"data.path=/tmp/\xc3\xa9"}), "");
}

TEST_F(JobReader, no_steps_and_no_epochs_are_told_apart_from_none_given) {
  const std::string rest = "[model]\nfamily = \"tiny\"\nconfig = \"c.json\"\n[data]\npath = \"t.jsonl\"\n";
  EXPECT_THAT(message("[job]\nsteps = 0\n" + rest), StartsWith("job.toml:2:9: job.steps: expected at least 1, got 0"));
  EXPECT_THAT(message("[job]\nepochs = 0\n" + rest),
              StartsWith("job.toml:2:10: job.epochs: expected more than 0, got 0"));
  EXPECT_THAT(message(rest), StartsWith("job.toml: job.steps or job.epochs is required"));
}

TEST_F(JobReader, whoever_goes_on_gets_all_mistakes_and_the_options_that_they_concern) {
  Problems problems;
  const ResolvedJob job =
      resolve_job({.file = write(kMinimal + "max_tokens = 0\n[optimizer]\nlearning_rate = \"x\"\n")}, problems);
  EXPECT_EQ(problems.size(), 2u);
  EXPECT_THAT(job.broken, ElementsAre("data.max_tokens", "optimizer.learning_rate"));
  EXPECT_EQ(job.config.data.max_tokens, JobConfig().data.max_tokens);
  EXPECT_EQ(job.config.model.family, "tiny");
}

TEST_F(JobReader, a_message_about_an_option_gets_the_place_that_gave_its_value) {
  const ResolvedJob job = resolve_job({.file = write(kMinimal), .overrides = {{"data.max_tokens=9", "--set"}}});
  const std::string file = (folder_ / "job.toml").string();
  EXPECT_EQ(with_origins(job, "data.path: none\ndata.max_tokens: 9\nmodel.freeze: x\nmodel.pathology: y\nelse"),
            file + ":7:8: data.path: none\n--set: data.max_tokens: 9\n" + file +
                ": model.freeze: x\nmodel.pathology: y\nelse");
}

TEST_F(JobReader, an_unknown_table_is_refused_once) {
  EXPECT_EQ(message(kMinimal + "[optimiser]\nlearning_rate = 1\nbeta1 = 2\n"),
            "job.toml:8:2: optimiser is unknown; did you mean optimizer?");
}

TEST_F(JobReader, all_mistakes_are_told_in_one_pass_in_the_order_of_the_file) {
  EXPECT_EQ(
      message(R"([job]
steps = "ten"
sed = 1
[data]
path = "x"
max_tokens = 0
too_long = "cutt"
packing = 1
[optimizer]
beta1 = 1.0
[launch]
processes = 1.5
)"),
      "job.toml:2:9: job.steps: expected an integer, got text \"ten\"\n"
      "job.toml:3:1: job.sed is unknown; did you mean job.seed?\n"
      "job.toml:6:14: data.max_tokens must be in [1, 1000000000] (tokens), got 0\n"
      "job.toml:7:12: data.too_long must be one of skip, cut, got text \"cutt\"\n"
      "job.toml:8:11: data.packing: expected true or false, got integer 1\n"
      "job.toml:10:9: optimizer.beta1 must be in [0, 1), got 1\n"
      "job.toml:12:13: launch.processes: expected an integer, got number 1.5\n"
      "job.toml: model.family is required: the model plugin; `lfrun plugins list` shows them\n"
      "job.toml: model.path or model.config is required: a Hugging Face directory to start from, or a config.json "
      "for random weights");
}

TEST_F(JobReader, a_key_given_twice_is_refused_and_does_not_hide_other_mistakes) {
  const std::string said = message("[job]\nsteps = 1\nsteps = 2\nseeed = 1\n");
  EXPECT_THAT(said, StartsWith("job.toml:3:9: steps is given twice; keep one\n"));
  EXPECT_THAT(said, HasSubstr("job.toml:4:1: job.seeed is unknown; did you mean job.seed?"));
}

TEST_F(JobReader, steps_and_epochs_exclude_each_other_and_one_is_needed) {
  EXPECT_EQ(message("[job]\nsteps = 3\nepochs = 2.0\n[model]\nfamily=\"tiny\"\npath=\"m\"\n[data]\npath=\"d\"\n"),
            "job.toml:3:10: expected one of job.steps and job.epochs, got both (3 and 2); remove one");
  EXPECT_EQ(message("[model]\nfamily=\"tiny\"\npath=\"m\"\n[data]\npath=\"d\"\n"),
            "job.toml: job.steps or job.epochs is required: how long to train");
}

TEST_F(JobReader, options_that_contradict_each_other_are_refused) {
  EXPECT_THAT(message(kMinimal + "image_min_pixels = 10\nimage_max_pixels = 5\n"),
              HasSubstr("job.toml:9:20: data.image_max_pixels must be at least data.image_min_pixels, got 5 and 10"));
  EXPECT_THAT(message(kMinimal + "[schedule]\nwarmup_steps = 11\n"),
              HasSubstr("job.toml:9:16: schedule.warmup_steps must be at most job.steps, got 11 and 10"));
  EXPECT_THAT(message(kMinimal + "[schedule]\nwarmup_steps = 1\nwarmup_fraction = 0.1\n"),
              HasSubstr("expected one of schedule.warmup_steps and schedule.warmup_fraction, got both"));
  EXPECT_THAT(message(kMinimal + "[schedule]\nname = \"wsd\"\nwarmup_fraction = 0.6\ndecay_fraction = 0.5\n"),
              HasSubstr("must together be at most 1, got 0.6 and 0.5"));
  EXPECT_THAT(message(kMinimal, {"model.path=/m"}), HasSubstr("expected one of model.path and model.config, got both"));
}

TEST_F(JobReader, a_fixed_reduction_leaves_samples_where_they_arrive_and_contradicts_another_policy) {
  EXPECT_EQ(load(kMinimal).balance.policy, "minimax");
  EXPECT_EQ(load(kMinimal + "[reduction]\nmode = \"fixed\"\n").balance.policy, "none");
  EXPECT_EQ(load(kMinimal + "[reduction]\nmode = \"fixed\"\n[balance]\npolicy = \"none\"\n").balance.policy, "none");
  EXPECT_THAT(message(kMinimal + "[reduction]\nmode = \"fixed\"\n[balance]\npolicy = \"minimax\"\n"),
              HasSubstr("job.toml:11:10: balance.policy must be none where reduction.mode is fixed, got minimax"));
}

TEST_F(JobReader, a_number_that_is_not_finite_is_refused_even_where_no_range_is_set) {
  EXPECT_EQ(message(kMinimal + "[optimizer]\nclip_norm = inf\n"),
            "job.toml:9:13: optimizer.clip_norm must be at least 0, got inf");
  EXPECT_THAT(message(kMinimal + "[model.options]\nx = nan\n"), HasSubstr("model.options.x: must be finite, got nan"));
}

TEST_F(JobReader, set_takes_typed_values_and_wins_over_the_file_the_last_one_over_the_first) {
  const JobConfig config = load(kMinimal, {"job.steps=20", "job.steps = 30", "optimizer.learning_rate=2e-5",
                                           "model.freeze=[\"vision\"]", "data.packing=false", "optimizer.clip_norm=2"});
  EXPECT_EQ(config.job.steps, 30);
  EXPECT_EQ(config.optimizer.learning_rate, 2e-5);
  EXPECT_THAT(config.model.freeze, ElementsAre("vision"));
  EXPECT_FALSE(config.data.packing);
  EXPECT_EQ(config.optimizer.clip_norm, 2.0);
}

TEST_F(JobReader, set_passes_the_same_checks_and_names_itself) {
  EXPECT_EQ(message(kMinimal, {"data.max_tokenz=1"}),
            "--set data.max_tokenz=1: data.max_tokenz is unknown; did you mean data.max_tokens?");
  EXPECT_EQ(message(kMinimal, {"data.max_tokens=1.5"}),
            "--set data.max_tokens=1.5: data.max_tokens: expected an integer, got number 1.5");
  EXPECT_EQ(message(kMinimal, {"precision.compute=fp16"}),
            "--set precision.compute=fp16: precision.compute must be one of fp32, bf16, got text \"fp16\"");
  EXPECT_EQ(message(kMinimal, {"job.steps"}), "--set job.steps: expected table.key=value");
  EXPECT_THAT(message(kMinimal, {"job.steps="}), HasSubstr("job.steps: expected an integer, got nothing"));
}

TEST_F(JobReader, set_cannot_smuggle_in_a_second_key) {
  EXPECT_THAT(message(kMinimal, {"job.steps=1\nseed = 2"}),
              HasSubstr("job.steps: expected an integer, got 1 seed = 2"));
  EXPECT_THAT(message(kMinimal, {"job.name=\"a\"\nseed = 2"}), HasSubstr("job.name: expected text in quotes"));
}

TEST_F(JobReader, a_word_without_quotes_is_text_only_where_text_is_wanted) {
  const JobConfig config = load(kMinimal, {"precision.compute=fp32", "model.freeze=vision*", "job.name=my-run"});
  EXPECT_EQ(config.precision.compute, "fp32");
  EXPECT_THAT(config.model.freeze, ElementsAre("vision*"));
  EXPECT_EQ(config.job.name, "my-run");
  EXPECT_THAT(message(kMinimal, {"job.steps=ten"}), HasSubstr("job.steps: expected an integer, got ten"));
  for (const char* text : {"12", "2024-01-31", "1e3", "true", "it's", "a#b"})
    EXPECT_EQ(load(kMinimal, {std::string("job.name=") + text}).job.name, text);
  EXPECT_EQ(load(kMinimal, {"job.output=2024"}).job.output, std::filesystem::current_path() / "2024");
  EXPECT_THAT(message(kMinimal, {"job.name=[1]"}), HasSubstr("job.name: expected text in quotes, got a list"));
  EXPECT_THAT(message(kMinimal, {"optimizer.on_nonfinite=7"}), HasSubstr("optimizer.on_nonfinite must be one of"));
  EXPECT_THAT(message(kMinimal, {"job.name=\"open"}), HasSubstr("job.name: expected text in quotes"));
}

TEST_F(JobReader, a_set_that_is_no_toml_says_what_its_option_takes_and_not_what_the_parser_guessed) {
  EXPECT_EQ(message(kMinimal, {"data.packing=no"}),
            "--set data.packing=no: data.packing: expected true or false, got no");
  EXPECT_EQ(message(kMinimal, {"launch.processes=two"}),
            "--set launch.processes=two: launch.processes: expected an integer, got two");
  EXPECT_EQ(message(kMinimal, {"model.freeze=[vision"}),
            "--set model.freeze=[vision: model.freeze: expected a list of texts, got [vision");
  EXPECT_EQ(message(kMinimal, {"model.options.indexer=on"}),
            "--set model.options.indexer=on: model.options.indexer: expected a number, true, false or text in quotes, "
            "got on; if text is meant, quote it: --set 'model.options.indexer=\"on\"'");
}

TEST_F(JobReader, set_changes_one_key_of_a_free_table) {
  const JobConfig config = load(kMinimal + "[model.options]\nwindow = 4\nother = 1\n",
                                {"model.options.window=8", "model.options.deep.x=true"});
  EXPECT_THAT(config.model.options,
              ElementsAre(Pair("deep", R"({"x":true})"), Pair("other", "1"), Pair("window", "8")));
}

TEST_F(JobReader, paths_of_the_file_start_at_its_folder_and_paths_of_the_command_line_at_the_current_one) {
  const auto job = resolve_job({.file = write(kMinimal + "media_root = \"../media\"\n"),
                                .overrides = {{"data.path=more.jsonl"}, {"job.output=out"}},
                                .working_directory = "/somewhere"});
  EXPECT_EQ(job.config.data.media_root, folder_.parent_path() / "media");
  EXPECT_EQ(job.config.model.config, folder_ / "config.json");
  EXPECT_THAT(job.config.data.path, ElementsAre("/somewhere/more.jsonl"));
  EXPECT_EQ(job.config.job.output, "/somewhere/out");
}

TEST_F(JobReader, the_output_of_the_file_starts_at_the_current_directory) {
  const auto job = resolve_job(
      {.file = write("[job]\nsteps = 1\noutput = \"here\"\n[model]\nfamily=\"tiny\"\npath=\"m\"\n[data]\npath=\"d\"\n"),
       .working_directory = "/somewhere"});
  EXPECT_EQ(job.config.job.output, "/somewhere/here");
  EXPECT_EQ(job.config.model.tokenizer, folder_ / "m");
}

TEST_F(JobReader, the_environment_chooses_the_device_and_is_checked) {
  const auto path = write(kMinimal + "[device]\nname = \"cpu\"\n");
  EXPECT_EQ(resolve_job({.file = path, .device = "cuda"}).config.device.name, "cuda");
  EXPECT_EQ(resolve_job({.file = path}).config.device.name, "cpu");
  try {
    resolve_job({.file = path, .device = "Not A Device"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "LF_DEVICE: device.name must be an id of 2 to 64 characters a-z 0-9 . _ -, got text \"Not A Device\"");
  }
}

TEST_F(JobReader, a_job_file_that_cannot_be_read_is_missing_input) {
  const auto exit_of = [](const std::filesystem::path& path) {
    try {
      load_job(path);
    } catch (const Error& error) {
      return std::pair(error.exit(), std::string(error.what()));
    }
    return std::pair(Exit::kDone, std::string());
  };
  EXPECT_THAT(exit_of(folder_ / "absent.toml"), Pair(Exit::kInputMissing, HasSubstr("No such file")));
  EXPECT_THAT(exit_of(folder_), Pair(Exit::kInputMissing, HasSubstr("got a folder")));
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(exit_of(folder_ / "pipe"), Pair(Exit::kInputMissing, HasSubstr("not a regular file")));
}

TEST_F(JobReader, what_is_wrong_inside_a_table_is_told_where_it_stands_there) {
  const auto job =
      resolve_job({.file = write(kMinimal + "[model.options]\nwindow = 4\nvision = {depth = 2, width = 3}\n"
                                            "[optimizer]\ngroups = [{parameters = [\"a\"], weight_decay = 0.0},\n"
                                            "  {parameters = [\"b\"], weight_decay = 0.1}]\n"),
                   .overrides = {{"model.options.deep.x=1"}}});
  const std::string file = (folder_ / "job.toml").string();
  const auto place = [&](const std::string& message) {
    const std::string told = with_origins(job, message);
    EXPECT_TRUE(told.ends_with(": " + message)) << told;
    return told.substr(0, told.size() - message.size() - 2);
  };
  EXPECT_EQ(place("model.options.window: expected 5"), file + ":9:10");
  EXPECT_EQ(place("model.options.vision.width: expected 5"), file + ":10:30");
  EXPECT_EQ(place("model.options.vision.width.more: expected 5"), file + ":10:30") << "the nearest above";
  EXPECT_EQ(place("model.options.absent: expected a table, got none"), file + ":8:1");
  EXPECT_EQ(place("model.options.deep.x: expected 5"), "--set");
  EXPECT_EQ(place("optimizer.groups[1].parameters: matches nothing"), file + ":13:17");
}

TEST_F(JobReader, a_job_whose_own_path_is_no_utf8_is_refused_before_anything_is_recorded) {
  const std::filesystem::path folder = folder_ / "caf\xE9";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "job.toml") << kMinimal;
  try {
    resolve_job({.file = folder / "job.toml"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kConfig);
    EXPECT_EQ(error.what(), (folder / "job.toml").string() +
                                ": expected a path in UTF-8, as a run records what its paths start at; rename it");
  }
}

TEST_F(JobReader, missing_inputs_are_all_named_with_the_place_that_asked_for_them) {
  std::ofstream(folder_ / "config.json") << "{}";
  const auto job = resolve_job({.file = write(kMinimal + "media_root = \"media\"\n")});
  try {
    require_inputs(job);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kInputMissing);
    const std::string folder = folder_.string();
    const std::string next =
        " does not exist (" + folder +
        " does); correct the path, or make what it names first: the comments of a job file in configs/ say how";
    EXPECT_EQ(std::string(error.what()), folder + "/job.toml:7:8: data.path: " + folder + "/train.jsonl" + next + "\n" +
                                             folder + "/job.toml:8:14: data.media_root: " + folder + "/media" + next);
  }
  std::ofstream(folder_ / "train.jsonl") << "";
  std::filesystem::create_directory(folder_ / "media");
  EXPECT_NO_THROW(require_inputs(job));
}

TEST_F(JobReader, every_missing_path_of_a_list_is_named_and_a_tokenizer_folder_must_hold_its_file) {
  std::ofstream(folder_ / "config.json") << "{}";
  std::filesystem::create_directory(folder_ / "tok");
  auto job = resolve_job(
      {.file =
           write("[job]\nsteps = 1\n[model]\nfamily = \"tiny\"\nconfig = \"config.json\"\ntokenizer = \"tok\"\n[data]\n"
                 "path = [\"a.jsonl\", \"b.jsonl\"]\n")});
  Problems problems;
  check_inputs(job, problems);
  EXPECT_EQ(problems.size(), 3u);
  EXPECT_THAT(job.broken, ElementsAre("data.path", "model.tokenizer"));
  try {
    problems.refuse_if_any();
  } catch (const Error& error) {
    for (const char* text : {"a.jsonl does not exist", "b.jsonl does not exist", "tok/tokenizer.json does not exist"})
      EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(Unreadable, a_file_that_may_not_be_read_is_told_from_one_that_is_not_there) {
  EXPECT_EQ(exit_of_unreadable(EACCES), Exit::kPermission);
  EXPECT_EQ(exit_of_unreadable(EPERM), Exit::kPermission);
  EXPECT_EQ(exit_of_unreadable(ENOENT), Exit::kInputMissing);
  EXPECT_EQ(exit_of_unreadable(ENOTDIR), Exit::kInputMissing);
  EXPECT_EQ(exit_of_unreadable(EIO), Exit::kIo);
}

TEST_F(JobReader, starting_over_takes_the_first_free_directory) {
  EXPECT_EQ(fresh_output(folder_ / "run"), folder_ / "run");
  std::filesystem::create_directory(folder_ / "run");
  EXPECT_EQ(fresh_output(folder_ / "run"), folder_ / "run-2");
  std::filesystem::create_directory(folder_ / "run-2");
  EXPECT_EQ(fresh_output(folder_ / "run"), folder_ / "run-3");
}

}  // namespace
}  // namespace lf::test
