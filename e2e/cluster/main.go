// Every program of a Kubernetes cluster in one binary, chosen by the name it is
// called under or else by its first argument:
//
//	kube etcd --data-dir=...      kube kubelet --config=...      ln -s kube kubectl
//
// One link step instead of seven: the programs share most of their packages, so this
// builds in a few minutes on two cores and takes one file in the cache. The programs
// are those of the Kubernetes release in go.mod, unmodified.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	_ "time/tzdata"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// servers are the programs that end with the exit code of their cobra command.
var servers = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func isProgram(name string) bool {
	_, server := servers[name]
	return server || name == "etcd" || name == "kubectl"
}

// selectProgram leaves the chosen program's own command line in os.Args, because
// etcd and kubectl read it there.
func selectProgram() string {
	name := filepath.Base(os.Args[0])
	if !isProgram(name) && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	return name
}

func runKubectl() {
	_, _ = logs.GlogSetter(kubectlcmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

func main() {
	name := selectProgram()
	switch newCommand := servers[name]; {
	case name == "etcd":
		etcdmain.Main(os.Args)
	case name == "kubectl":
		runKubectl()
	case newCommand != nil:
		os.Exit(cli.Run(newCommand()))
	default:
		fmt.Fprintf(os.Stderr, "unknown program %q\n", name)
		os.Exit(2)
	}
}
