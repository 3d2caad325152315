// The parts of pawl-train's configuration (config.h), with their names in JSON, defaults and
// bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pawl {

// A field that is of other kinds is an error, here and in the parts that follow.
struct ModelConfig {
  // gpt: the block structure of GPT-2, learned positions. mlp: linear layers, for classification.
  std::string kind = "gpt";
  std::int64_t layers = 4;        // blocks, 1 to 1,000
  std::int64_t heads = 4;         // attention heads; divides channels
  std::int64_t channels = 128;    // width of the residual stream, 1 to 65,536
  std::int64_t context = 128;     // tokens in a sample, 1 to 65,536; mlp: 1, one target
  std::int64_t vocabulary = 256;  // token values, 2 to 1,000,000; data.kind text needs 256
  bool is_tied = false;           // in JSON `tied`: output layer = token embedding, as in GPT-2
  // gpt: parameters to begin with, in GPT-2's layout (weights/gpt2_load.h): a safetensors file, or
  // a folder as `save_pretrained` of transformers writes it. "": random ones, by the seed. Not read
  // by a run that goes on from a checkpoint.
  std::string weights = "";
  // mlp
  std::int64_t inputs = 0;                   // features of a row, 1 to 1,000,000; required
  std::int64_t classes = 0;                  // 2 to 1,000,000; required
  std::vector<std::int64_t> hidden = {128};  // widths of the layers between, up to 100 of them
};

struct DataConfig {
  // text: every byte of the files is a token. tokens: files of numbers (data/token_corpus.h). csv:
  // tables of numbers, one sample a row.
  std::string kind = "text";
  std::vector<std::string>
      paths;  // files, and folders that are read whole in sorted order; required
  // Never trained on: of text and tokens the end, of tables rows that the seed chooses; 0 to 0.9.
  double validation_fraction = 0.1;
  std::int64_t token_bytes = 2;  // tokens: of each, 2 or 4
  // csv
  std::string label = "";              // the column with the class, 0, 1, …; "": the last
  std::string normalize = "standard";  // features of the training rows: mean 0, deviation 1; none
  std::int64_t bad_rows_max = 0;       // so many are left out; with more the run ends
};

struct BatchConfig {
  std::int64_t global = 32;  // samples in an optimizer step, whatever the number of processes
  std::int64_t micro = 4;    // samples in one forward and backward pass; divides global
  // Who makes which of a step's passes. measured: even runs until a rank is seen to be slow
  // (parallel/dealing.h). even: always, so that equal numbers of ranks give equal bits without
  // `determinism: exact`.
  std::string dealing = "measured";
};

struct ParallelConfig {
  // ZeRO's stage. 0: each rank holds the states of the optimizer. 1: 1 / world size of them; adamw
  // and sgd. The bits of the parameters are the same.
  std::int64_t zero = 0;
  // What goes over the network of a gradient, with error feedback (compress/compressor.h): none
  // (all of it), bf16, int8, sign, top_k. Not with zero 1, nor with `determinism: exact`.
  std::string compression = "none";
  double compression_share = 0.01;  // top_k: of the elements, 1e-6 to 1
};

struct OptimizerConfig {
  std::string kind = "adamw";        // adamw, sgd, lamb, lars
  double learning_rate = 1e-3;       // at the end of the warm-up; sgd, lars: 0.1
  double beta1 = 0.9, beta2 = 0.95;  // adamw, lamb
  double momentum = 0.9;             // sgd, lars; 0 of sgd: none, and no memory for it
  bool is_nesterov = false;          // in JSON `nesterov`; sgd
  double trust = 0.02;               // lars: the learning rate of a matrix, by norms
  double epsilon = 1e-8;             // all but sgd
  // Of matrices: adamw multiplies a parameter by (1 - learning rate * this), the others add this *
  // parameter to its gradient or, lamb, direction. sgd and lars have a default of 1e-4.
  double weight_decay = 0.1;
  double clip_norm = 1.0;          // upper limit of the gradient's norm; 0: no limit
  std::string scaling = "none";    // of the learning rate, by batch.global: none, linear, sqrt
  std::int64_t scaling_batch = 0;  // the batch.global that learning_rate is for; needed with it

  // A part of a tensor can be updated without knowing the rest.
  bool works_on_parts() const { return kind == "adamw" || kind == "sgd"; }
};

struct ScheduleConfig {
  std::string kind = "cosine";     // cosine, linear, wsd, constant
  std::int64_t warmup_steps = 20;  // in place of warmup_tokens
  // Stays the same when the batch changes; of an mlp rows are counted. 0: warmup_steps.
  std::int64_t warmup_tokens = 0;
  double final_fraction = 0.1;  // of the learning rate, at the last step
  double decay_fraction = 0.2;  // wsd: of the steps after the warm-up, to go down in
};

// Against steps that would spoil the model, and ranks that no longer agree.
struct GuardConfig {
  // What is done with a step whose loss or gradient is not finite, or is a spike. fail: the run
  // ends. skip: its samples count, its gradient does not.
  std::string on_bad_step = "fail";
  // A gradient norm so many times the usual (optim/guard.h) is a spike, 1.5 to 10^6; 0: none is.
  double spike = 0;
  std::int64_t skips_max = 10;  // in a row; one more ends the run; 1 to 10^6
  // Steps between comparisons of all ranks' parameters; 0: none.
  std::int64_t digest_every = 1000;
};

// Some steps as files for chrome://tracing and Perfetto (trainer/trace.h).
struct TraceConfig {
  std::string folder = "";  // made if it is not there; "": none is written
  // Counted from where the process, or a new generation of its gang, begins: the first ones are
  // slower. 1 to 10^12.
  std::int64_t first_step = 10;
  std::int64_t steps = 5;  // 1 to 1000
};

}  // namespace pawl
