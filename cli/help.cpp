#include "cli/help.h"

#include <algorithm>
#include <array>

namespace pawl::cli {
namespace {

constexpr char kClusterOptions[] = R"(
  -n, --namespace NS    default: the context's namespace
      --kubeconfig FILE default: KUBECONFIG, else ~/.kube/config, else the pod's service account
      --context NAME    default: the kubeconfig's current context
)";

struct Verb {
  const char* name;
  const char* summary;  // after "PROGRAM VERB"
  const char* purpose;  // one line
  const char* details;
  bool reads_cluster = false;
};

constexpr std::array kVerbs = {
    Verb{"status", "[JOB]", "where the jobs stand; one job: a page about it", R"(
  -A, --all-namespaces  jobs of all namespaces
  -o, --output FORMAT   wide: more columns; json: the objects as the API server has them (with JOB:
                        {job, workerGroup, pods, events})
Exit code: 0; 1 no such job, or the cluster could not be asked; 2 wrong arguments.
)",
         true},
    Verb{"why", "JOB", "why the job is where it is, and what to do next", R"(
Exit code: 0; 1 no such job, or the cluster could not be asked; 2 wrong arguments.
)",
         true},
    Verb{"logs", "JOB", "the log of rank 0, or of others", R"(
  -r, --rank R          of this rank
      --all-ranks       of all ranks, each line with its rank in front
      --attempt A       of this attempt, as long as its pods exist
  -p, --previous-attempt  of the attempt before the present one
  -f, --follow          go on until the pods end
      --tail N          the last N lines of each pod
Where the pods are gone, the end of the log that the last failure kept is printed, and standard error says so.
Of a `pawl run`: --kubeconfig RUN-DIR/kubeconfig while it runs; afterwards the files in RUN-DIR/logs are its logs.
Exit code: 0; 1 no log to read, or the cluster could not be asked; 2 wrong arguments.
)",
         true},
    Verb{"convert", "FILE…", "PyTorchJob, TrainJob and JobSet manifests as TrainingJobs", R"(
Reads YAML with any number of documents ("-": standard input), writes TrainingJobs to standard output, and to standard
error what could not be carried over: the field, why, and what to do instead.
Exit code: 0 all was carried; 3 something was left out; 2 no TrainingJob can be made of it.
)"},
    Verb{"run", "JOB.yaml",
         "run a TrainingJob on this machine: no cluster, root or container runtime", R"(
      --run-dir DIR     logs, and checkpoints that have no other place (default: pawl-runs/<job>-<time>)
      --set spec.FIELD=VALUE  change a field of the job; VALUE is YAML; may be repeated
      --text PATH       train on this text: replaces spec.runtime.config.data.paths; may be repeated
      --chaos kill-rank=R@S  kill -9 the training process of rank R when the job has come to step S
      --quiet           only the end of the story
Exit code: 0 Complete, 1 Failed, 2 wrong file or arguments, 130 interrupted (the job is deleted).
)"},
    Verb{"validate", "FILE.yaml",
         "what is wrong with a TrainingJob or TrainingQueue; \"-\" is standard input", R"(
Says what the API server would say and, of a Native job's spec.runtime.config, what the trainer would: one line a problem.
Exit code: 0 valid, 2 not valid.
)"},
    Verb{"version", "", "the version", ""},
};

std::string head(const std::string& program, const Verb& verb) {
  std::string text = program + " " + verb.name;
  if (*verb.summary != '\0') text += std::string(" ") + verb.summary;
  return text;
}

}  // namespace

std::string usage_text(const std::string& program) {
  std::string text = program + ": training jobs that survive their machines\n\n";
  for (const Verb& verb : kVerbs) {
    std::string line = "  " + head(program, verb);
    line.resize(std::max<std::size_t>(line.size() + 2, program.size() + 23), ' ');
    text += line + verb.purpose + "\n";
  }
  return text + "\n`" + program + " VERB --help` says more about each.\n";
}

std::string help_text(const std::string& program, const std::string& verb) {
  for (const Verb& known : kVerbs) {
    if (verb != known.name) continue;
    std::string text = head(program, known) + ": " + known.purpose + "\n";
    if (known.reads_cluster) text += kClusterOptions;
    return text +
           (known.reads_cluster && *known.details != '\0' ? known.details + 1 : known.details);
  }
  return usage_text(program);
}

std::string program_name(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return file.starts_with("kubectl-") ? "kubectl pawl" : "pawl";
}

}  // namespace pawl::cli
