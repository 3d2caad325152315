"""The manifests of the scenarios, small enough to train in seconds."""

import json


def tiny_gpt(name, steps=60, replicas=2, checkpoint_seconds=2, max_restarts=6, suspend=False):
    """A byte-level GPT on the text of the shared volume, without a template: Native fills it in."""
    return {
        "apiVersion": "pawl.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "suspend": suspend,
            "replicas": replicas,
            "failurePolicy": {"maxRestarts": max_restarts},
            "checkpoint": {"uri": f"file:///data/checkpoints/{name}", "everySeconds": checkpoint_seconds},
            "runtime": {
                "kind": "Native",
                "config": {
                    "model": {"kind": "gpt", "layers": 2, "heads": 2, "channels": 64, "context": 64},
                    "data": {"kind": "text", "paths": ["/data/text/gcide.txt"]},
                    "batch": {"global": 16, "micro": 4},
                    "optimizer": {"kind": "adamw", "learning_rate": 0.002},
                    "schedule": {"kind": "cosine", "warmup_steps": 10},
                    "steps": steps,
                    "seed": 7,
                },
            },
            "template": native_template(),
        },
    }


def spread(manifest):
    """As many workers on each node; the scheduler may else put all on one."""
    manifest["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"pawl.dev/job": manifest["metadata"]["name"]}}}]
    return manifest


def native_template():
    return {
        "spec": {
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 2000,
                                "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "worker",
                "securityContext": restricted_container(),
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "pawl-data"}}],
        },
    }


def restricted_container():
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]}}


def foreign(name, image, command, kind="Torch", replicas=2, max_restarts=0):
    """A job on somebody else's image: the launcher is injected."""
    return {
        "apiVersion": "pawl.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "failurePolicy": {"maxRestarts": max_restarts},
            "runtime": {"kind": kind},
            "template": {
                "spec": {
                    "securityContext": {"runAsNonRoot": True, "runAsUser": 1000,
                                        "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{"name": "worker", "image": image, "command": command,
                                    "imagePullPolicy": "IfNotPresent",
                                    "securityContext": restricted_container()}],
                },
            },
        },
    }


def text(job):
    return json.dumps(job)
