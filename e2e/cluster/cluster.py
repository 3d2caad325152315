#!/usr/bin/env python3
"""The test cluster's command line: `cluster.py --help`, and README.md for the shape."""

import argparse
import os
import pathlib
import sys
import time

import addons
from api import ApiError
from apiserver_only import ApiServerOnly
from layout import Layout, default_state_dir
from testbed import Cluster, clean_up, exclusive
from tools import Kubernetes, tool


def state_dir() -> pathlib.Path:
    return default_state_dir().resolve()


def load() -> Cluster:
    return Cluster.load(state_dir())


def up(options) -> None:
    begin = time.monotonic()
    with exclusive(state_dir()):
        cluster = Cluster.up(state_dir(), options.nodes, options.newest)
    print(f"up in {time.monotonic() - begin:.1f} s: {' '.join(cluster.nodes)}", file=sys.stderr)
    env(options)


def down(options) -> None:
    with exclusive(state_dir()):
        clean_up(Layout(state_dir()), options.keep)


def env(_) -> None:
    for name, value in load().variables().items():
        print(f"{name}={value}")


def kubectl(options) -> None:
    """`kubectl --as-token TOKEN ...` is the holder of the token: with the administrator's
    certificate in the kubeconfig the server would not look at a --token."""
    cluster, arguments = load(), options.arguments
    kubeconfig = cluster.control_plane.kubeconfig
    if arguments[:1] == ["--as-token"] and len(arguments) > 1:
        kubeconfig = cluster.token_kubeconfig(arguments[1])
        arguments = arguments[2:]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    os.execve(cluster.newest["kubectl"], ["kubectl", *arguments], environment)


def helm(options) -> None:
    """Its caches are in the state directory, so that runs do not share charts or plugins."""
    cluster, program = load(), tool("helm")
    home = cluster.layout.state / "helm"
    environment = {**os.environ, "KUBECONFIG": str(cluster.control_plane.kubeconfig)}
    for kind in ("CACHE", "CONFIG", "DATA"):
        environment[f"HELM_{kind}_HOME"] = str(home / kind.lower())
    os.execve(program, ["helm", *options.arguments], environment)


def apiserver_only(options) -> None:
    directory = pathlib.Path(options.dir or f"{state_dir()}-api").resolve()
    server = ApiServerOnly(directory)
    with exclusive(directory):
        if options.action == "down":
            server.down()
            return
        server.up(options.with_controller_manager, options.with_garbage_collector)
    print(server.variables, end="")


def load_image(options) -> None:
    for archive in options.archives:
        begin = time.monotonic()
        loaded = load().load_image(pathlib.Path(archive).resolve())
        how = f"loaded in {time.monotonic() - begin:.1f} s" if loaded else "already there"
        print(f"{archive}: {how}", file=sys.stderr)


def volume(options) -> None:
    cluster = load()
    folder = cluster.layout.state / "volumes"
    api = cluster.control_plane.api
    print(addons.create_volume(api, folder, options.name, options.namespace, options.size))


def gpus(options) -> None:
    cluster = load()
    addons.set_gpus(cluster.control_plane.api, cluster.node(options.node).address.name, options.count)


def node_kill(options) -> None:
    load().node(options.node).kill()


def node_start(options) -> None:
    load().start_node(options.node)


def node_cut(options) -> None:
    cluster = load()
    cluster.network.cut(cluster.node(options.node).address)


def node_heal(options) -> None:
    cluster = load()
    cluster.network.heal(cluster.node(options.node).address)


def block(options) -> None:
    cluster = load()
    cluster.network.block(cluster.layout.addresses(options.first), cluster.layout.addresses(options.second))


def unblock(_) -> None:
    load().network.unblock()


def node_stop(options) -> None:
    load().node(options.node).stop_program(options.program)


def node_restart(options) -> None:
    load().node(options.node).restart_program(options.program)


def apiserver_kill(_) -> None:
    load().control_plane.api_server.kill()


def apiserver_start(options) -> None:
    load().start_api_server(options.restart_clients)


def tools(_) -> None:
    """Builds everything that `up` would build on its first call."""
    Kubernetes()
    addons.system_images()
    tool("helm")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(function, text: str, *positional):
        sub = verbs.add_parser(function.__name__.replace("_", "-"), help=text)
        sub.set_defaults(function=function)
        for name in positional:
            sub.add_argument(name)
        return sub

    start = verb(up, "start over from nothing, or from what 'down --keep' left")
    start.add_argument("--nodes", type=int, default=2)
    start.add_argument("--newest", action="store_true",
                       help="a control plane of the newest Kubernetes, with PodGroups, above the same nodes")
    verb(down, "remove every trace").add_argument("--keep", action="store_true", help="keep etcd and images")
    verb(env, "print what a test needs to know")
    for passed_on in (kubectl, helm):
        verb(passed_on, f"run {passed_on.__name__} on the cluster: all that follows is its own")
    only = verb(apiserver_only, "etcd and kube-apiserver alone, on loopback")
    only.add_argument("action", choices=["up", "down"])
    only.add_argument("--dir", help="its state; several can run at once")
    only.add_argument("--with-controller-manager", action="store_true")
    only.add_argument("--with-garbage-collector", action="store_true",
                      help="of the controllers only that and the one for service accounts; our CRDs are there")
    verb(load_image, "import archives into all nodes").add_argument("archives", nargs="+")
    verb(volume, "a claim that pods on all nodes share", "name", "namespace").add_argument(
        "--size", default="1Gi")
    verb(gpus, "give a node nvidia.com/gpu", "node").add_argument("count", type=int)
    verb(node_kill, "power-off", "node")
    verb(node_start, "power on and wait for Ready", "node")
    verb(node_cut, "partition: the node runs on and reaches nobody", "node")
    verb(node_heal, "end of the partition", "node")
    verb(block, "packets between two of control-plane, nodes (with their pods) and addresses are lost", "first",
         "second")
    verb(unblock, "end of every block")
    verb(node_stop, "kill -9 one program of the node for good; containers run on", "node").add_argument(
        "program", choices=["kubelet", "containerd"])
    verb(node_restart, "kill -9 one program of the node; it starts again, after node-stop too", "node").add_argument(
        "program", choices=["kubelet", "containerd", "kube-proxy"])
    verb(apiserver_kill, "kill -9")
    verb(apiserver_start, "and wait for ready").add_argument(
        "--restart-clients", action="store_true", help="kubelets and others, or nodes are NotReady for up to 45 s")
    verb(tools, "build all programs into the cache")
    if arguments[:1] in (["kubectl"], ["helm"]):  # argparse would claim options such as -n
        options = parser.parse_args(arguments[:1])
        options.arguments = arguments[1:]
        return options
    return parser.parse_args(arguments)


def main() -> None:
    options = parse(sys.argv[1:])
    try:
        options.function(options)
    except (ApiError, OSError, RuntimeError) as error:
        sys.exit(f"cluster.py {options.verb}: {error}")


if __name__ == "__main__":
    main()
