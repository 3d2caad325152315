// Every name that two programs of Pawl share: group, labels, annotations, environment variables,
// paths, ports and exit codes. Also what users may rely on. Versioned: a launcher refuses another
// kContractVersion.
#pragma once

namespace pawl::api {

inline constexpr int kContractVersion = 2;

inline constexpr char kGroup[] = "pawl.dev";
inline constexpr char kVersion[] = "v1alpha1";
inline constexpr char kApiVersion[] = "pawl.dev/v1alpha1";

// Labels on every child object. The job's UID selects; its name is for people.
inline constexpr char kLabelManagedBy[] = "app.kubernetes.io/managed-by";  // = "pawl"
inline constexpr char kManagedBy[] = "pawl";
inline constexpr char kLabelJobName[] = "pawl.dev/job";
inline constexpr char kLabelJobUid[] = "pawl.dev/job-uid";
inline constexpr char kLabelAttempt[] = "pawl.dev/attempt";
inline constexpr char kLabelSlot[] = "pawl.dev/slot";  // index of the worker in the gang
inline constexpr char kLabelIncarnation[] = "pawl.dev/incarnation";  // n of the slot

// The finest level of the tree of domains, a machine: as jobs name it, and its label.
inline constexpr char kHostLevel[] = "host";
inline constexpr char kLabelHostname[] = "kubernetes.io/hostname";

// Kueue's labels and annotations: those of the job go to its pods.
inline constexpr char kKueuePrefix[] = "kueue.x-k8s.io/";

// Autoscalers must not move a running gang.
inline constexpr char kAnnotationClusterAutoscaler[] =
    "cluster-autoscaler.kubernetes.io/safe-to-evict";
inline constexpr char kAnnotationKarpenter[] = "karpenter.sh/do-not-disrupt";
// The capacity that was provided for a ProvisioningRequest is used by this pod.
inline constexpr char kAnnotationNodeRequest[] =
    "autoscaling.x-k8s.io/consume-provisioning-request";
inline constexpr char kAnnotationNodeRequestClass[] =
    "autoscaling.x-k8s.io/provisioning-class-name";

// What the operator gives the launcher in the worker container's environment.
inline constexpr char kEnvWorker[] =
    "PAWL_WORKER";  // worker_facts.h: the job, the attempt, the slot, …
inline constexpr char kEnvPodUid[] = "PAWL_POD_UID";      // from fieldRef metadata.uid
inline constexpr char kEnvPodIp[] = "PAWL_POD_IP";        // from fieldRef status.podIP
inline constexpr char kEnvNodeName[] = "PAWL_NODE_NAME";  // from fieldRef spec.nodeName
inline constexpr char kEnvSlot[] =
    "PAWL_SLOT";  // for the template's own $(PAWL_SLOT); so are those below
inline constexpr char kEnvAttempt[] = "PAWL_ATTEMPT";
inline constexpr char kEnvGeneration[] = "PAWL_GENERATION";
inline constexpr char kEnvJobName[] = "PAWL_JOB_NAME";
inline constexpr char kEnvJobUid[] = "PAWL_JOB_UID";
inline constexpr char kEnvTrainerConfig[] =
    "PAWL_TRAINER_CONFIG";  // Native: runtime.config as JSON
// Where a launcher finds what a cluster keeps at the places below; set by `pawl run` only.
inline constexpr char kEnvTokenFile[] = "PAWL_TOKEN_FILE";  // token for the API server
inline constexpr char kEnvCaFile[] = "PAWL_CA_FILE";        // CA of the API server
inline constexpr char kEnvPeerTokenFile[] =
    "PAWL_PEER_TOKEN_FILE";  // token for the leader, audience kTokenAudience
inline constexpr char kEnvHealthPort[] = "PAWL_HEALTH_PORT";
inline constexpr char kEnvApiServer[] = "PAWL_API_SERVER";  // "http://127.0.0.1:1234"
inline constexpr char kEnvMetadata[] = "PAWL_METADATA";     // of the cloud; none: nobody asks it
inline constexpr char kEnvTerminationLog[] =
    "PAWL_TERMINATION_LOG";  // default /dev/termination-log
// The user's own, in the template: launcher/settings.h, standby_after.
inline constexpr char kEnvStandbySeconds[] = "PAWL_STANDBY_SECONDS";
// … launcher/gpu: 0: a worker joins without a look at its GPUs; and where NVIDIA's library lies.
inline constexpr char kEnvHealthGate[] = "PAWL_HEALTH_GATE";
inline constexpr char kEnvNvml[] = "PAWL_NVML";
// What a process that stands by for a program calls itself until it has become that.
inline constexpr char kStandbyName[] = "pawl-standby";

// What the launcher gives the training process, beside those above and torchrun's (RANK,
// LOCAL_RANK, WORLD_SIZE, …).
inline constexpr char kEnvCheckpointUri[] = "PAWL_CHECKPOINT_URI";
inline constexpr char kEnvCheckpointSeconds[] = "PAWL_CHECKPOINT_SECONDS";  // 0 = auto
inline constexpr char kEnvCheckpointKeep[] = "PAWL_CHECKPOINT_KEEP";
inline constexpr char kEnvChannelFd[] = "PAWL_CHANNEL_FD";  // number of the inherited socket
inline constexpr char kEnvPulseFd[] = "PAWL_PULSE_FD";      // … and of the page of pulse.h
inline constexpr char kEnvInPlace[] = "PAWL_IN_PLACE";      // 1: spec.runtime.inPlace

inline constexpr char kTokenAudience[] = "pawl-launcher";
inline constexpr char kTokenMountPath[] =
    "/var/run/pawl/token";                                  // directory of the projected volume
inline constexpr char kTokenFileName[] = "token";           // audience: the API server's
inline constexpr char kPeerTokenFileName[] = "peer-token";  // audience: kTokenAudience
inline constexpr char kCaFileName[] = "ca.crt";
inline constexpr char kInjectMountPath[] =
    "/pawl";  // the injected launcher: bin/pawl-launch, lib/*
// Where the launcher image has the same two folders. `pawl-launch --install DIR` copies them to
// DIR.
inline constexpr char kLauncherImageRoot[] = "/inject";
inline constexpr char kLoaderFile[] = "lib/ld-linux-x86-64.so.2";  // below either root
inline constexpr int kHealthPort = 8471;          // /healthz and /readyz of the launcher
inline constexpr int kOperatorHealthPort = 8080;  // /healthz, /readyz, /metrics

// Exit codes of a launcher (and of a training process that knows us).
inline constexpr int kExitDone = 0;
inline constexpr int kExitRetry =
    75;  // not this process's fault: checkpointed or a victim; run me again
inline constexpr int kExitDrained = 86;  // left the gang on request
inline constexpr int kExitFatal = 93;    // never restart: the configuration cannot work
inline constexpr int kExitUser = 1;

// spec.managedBy of a job that is ours; so is one without it.
inline constexpr char kManagedByUs[] = "pawl.dev/operator";

// Limits that schema, validation and code share.
inline constexpr int kJobNameMax = 46;
inline constexpr int kQueueNameMax = 63;
inline constexpr int kReplicasMax = 2048;
inline constexpr int kProcessesMax = 64;
inline constexpr int kLogTailBytesMax = 2048;
inline constexpr int kMessageBytesMax = 1024;
// Causes of a failure.
inline constexpr char kCauseError[] = "Error";  // a program ended with a code of its own
inline constexpr char kCauseSignal[] = "Signal";
inline constexpr char kCauseOutOfMemory[] = "OOM";
inline constexpr char kCauseHang[] = "Hang";
inline constexpr char kCauseVictim[] = "Victim";  // of another's failure
inline constexpr char kCauseUnknown[] = "Unknown";
// … and of an excluded node: the machine is taken away, which was said before it was.
inline constexpr char kCauseInterrupted[] = "Interrupted";
inline constexpr char kCauseGpuFault[] = "GpuFault";  // a GPU of it has failed, or is found bad
// … of a worker that held up its gang there.
inline constexpr char kCauseStraggler[] = "Straggler";
// Of a member that its gang goes on without: its processes and another's do not reach each other.
inline constexpr char kCauseUnreached[] = "Unreached";
inline constexpr int kExcludedNodesMax = 32;

// Names of a job's children: the ServiceAccount, Role, RoleBinding and PodDisruptionBudget are
// "<job>-pawl-worker", the WorkerGroup has the job's name, pods are "<job>-<attempt>-<slot>-<n>".

}  // namespace pawl::api
