// Load on a real API server, for the benchmarks of the operator: many requests at once over connections that are kept, a
// recorder of everything that happens to one kind of object, and reports of launchers that do not exist. The standard
// library alone: it builds in seconds.
//
//	load post   -path /api/v1/namespaces/n/pods -template pod.json -to 800 -per 8
//	load watch  -path /api/v1/pods -expect 800 -record events.jsonl
//	load report -seconds 60
//
// All take -server, -ca, -cert and -key.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	commands := map[string]func(context.Context, []string) error{"post": post, "watch": watch, "report": report}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: load post|watch|report FLAGS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := commands[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func newFlags(name string) (*flag.FlagSet, *connection) {
	flags, c := flag.NewFlagSet(name, flag.ExitOnError), &connection{agent: "load-" + name}
	flags.StringVar(&c.server, "server", "", "https://ADDRESS:PORT")
	flags.StringVar(&c.ca, "ca", "", "file with the server's CA")
	flags.StringVar(&c.certificate, "cert", "", "file with the client's certificate")
	flags.StringVar(&c.key, "key", "", "file with its key")
	flags.StringVar(&c.agent, "agent", c.agent, "User-Agent")
	return flags, c
}
