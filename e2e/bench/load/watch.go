package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

type meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	DeletionTimestamp string            `json:"deletionTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	OwnerReferences   []struct {
		Kind string `json:"kind"`
		UID  string `json:"uid"`
	} `json:"ownerReferences,omitempty"`
}

// What is kept of any kind of object.
type object struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName,omitempty"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase,omitempty"`
		Attempt    int64  `json:"attempt,omitempty"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions,omitempty"`
	} `json:"status"`
}

type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// How many objects have been seen, and how many of them have been in a phase.
type recorder struct {
	expect  int
	out     *bufio.Writer
	created map[string]bool
	phases  map[string]map[string]bool
}

func (r *recorder) milestone(name string, count int, now time.Time) {
	if count == r.expect {
		fmt.Printf("%s %d %.6f\n", name, count, float64(now.UnixNano())/1e9)
	}
}

func (r *recorder) take(e event, now time.Time) error {
	uid, phase := e.Object.Metadata.UID, e.Object.Status.Phase
	if !r.created[uid] {
		r.created[uid] = true
		r.milestone("created", len(r.created), now)
	}
	if phase != "" && !r.phases[phase][uid] {
		if r.phases[phase] == nil {
			r.phases[phase] = map[string]bool{}
		}
		r.phases[phase][uid] = true
		r.milestone(strings.ToLower(phase), len(r.phases[phase]), now)
	}
	if r.out == nil {
		return nil
	}
	line, err := json.Marshal(struct {
		Time float64 `json:"time"`
		event
	}{float64(now.UnixNano()) / 1e9, e})
	if err != nil {
		return err
	}
	_, err = r.out.Write(append(line, '\n'))
	return err
}

// Records everything that happens to one kind of object until it is told to stop. Prints "ready" when it watches, and
// "created|PHASE COUNT UNIX_TIME" when COUNT different objects were seen, or seen in that phase. A gap in what it saw
// is an error: it never lists twice.
func watch(ctx context.Context, arguments []string) error {
	flags, c := newFlags("watch")
	path := flags.String("path", "", "collection")
	selector := flags.String("selector", "", "label selector")
	record := flags.String("record", "", "file for all events, one JSON line each")
	r := recorder{created: map[string]bool{}, phases: map[string]map[string]bool{}}
	flags.IntVar(&r.expect, "expect", 0, "print milestones at this count")
	if err := parse(flags, arguments, c); err != nil {
		return err
	}
	if *record != "" {
		file, err := os.Create(*record)
		if err != nil {
			return err
		}
		defer file.Close()
		r.out = bufio.NewWriterSize(file, 1<<20)
		defer r.out.Flush()
	}
	version, err := r.list(ctx, c, *path, *selector)
	if err != nil {
		return err
	}
	for isFirst := true; ; isFirst = false {
		version, err = r.follow(ctx, c, *path, *selector, version, isFirst)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func parse(flags *flag.FlagSet, arguments []string, c *connection) error {
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	return c.open(2)
}

func (r *recorder) list(ctx context.Context, c *connection, path, selector string) (string, error) {
	status, body, err := c.call(ctx, "GET", path+"?labelSelector="+url.QueryEscape(selector), "", nil)
	if err != nil {
		return "", err
	}
	if status != http.StatusOK {
		return "", fmt.Errorf("list %s: %d %s", path, status, body)
	}
	var list struct {
		Metadata meta     `json:"metadata"`
		Items    []object `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return "", err
	}
	for _, item := range list.Items {
		if err := r.take(event{"LISTED", item}, time.Now()); err != nil {
			return "", err
		}
	}
	return list.Metadata.ResourceVersion, nil
}

func (r *recorder) follow(ctx context.Context, c *connection, path, selector, version string, isFirst bool) (string, error) {
	query := url.Values{"watch": {"1"}, "resourceVersion": {version}, "timeoutSeconds": {"7200"},
		"labelSelector": {selector}, "allowWatchBookmarks": {"true"}}
	response, err := c.do(ctx, "GET", path+"?"+query.Encode(), "", nil)
	if err != nil {
		return version, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return version, fmt.Errorf("watch %s: %s", path, response.Status)
	}
	if isFirst {
		fmt.Println("ready")
	}
	decoder := json.NewDecoder(bufio.NewReaderSize(response.Body, 1<<16))
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return version, nil // the server ends a watch by itself now and then
		} else if err != nil {
			return version, err
		}
		if e.Type == "ERROR" {
			return version, errors.New("the watch was cut off and has a gap")
		}
		version = e.Object.Metadata.ResourceVersion
		if e.Type == "BOOKMARK" {
			continue
		}
		if err := r.take(e, time.Now()); err != nil {
			return version, err
		}
	}
}
