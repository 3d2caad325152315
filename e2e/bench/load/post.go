package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// One request for each number from -from to -to. In path and template, $I is the number, $JOB is number / per and $WORKER
// number % per. Prints "posted COUNT SECONDS"; anything but 2xx (or -accept) is a failure, and the first is shown.
func post(ctx context.Context, arguments []string) error {
	flags, c := newFlags("post")
	method := flags.String("method", "POST", "POST, PATCH (a merge patch) or DELETE")
	path := flags.String("path", "", "collection or object")
	file := flags.String("template", "", "file with the body")
	from := flags.Int("from", 0, "first number")
	to := flags.Int("to", 1, "one beyond the last number")
	per := flags.Int("per", 1, "numbers a job")
	parallel := flags.Int("parallel", 32, "requests at once")
	accept := flags.Int("accept", 0, "a further status that is success")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	template := ""
	if *file != "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		template = string(text)
	}
	if err := c.open(*parallel); err != nil {
		return err
	}
	kind := "application/json"
	if *method == "PATCH" {
		kind = "application/merge-patch+json"
	}

	var next atomic.Int64
	next.Store(int64(*from))
	var first sync.Once
	var failure error
	var failures atomic.Int64
	begin := time.Now()
	var workers sync.WaitGroup
	for range *parallel {
		workers.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= *to {
					return
				}
				fill := strings.NewReplacer("$I", strconv.Itoa(i), "$JOB", strconv.Itoa(i / *per),
					"$WORKER", strconv.Itoa(i%*per))
				status, answer, err := c.call(ctx, *method, fill.Replace(*path), kind, []byte(fill.Replace(template)))
				if err == nil && (status < 300 || status == *accept) {
					continue
				}
				failures.Add(1)
				first.Do(func() { failure = fmt.Errorf("%s %s: %d %s %v", *method, fill.Replace(*path), status, answer, err) })
			}
		})
	}
	workers.Wait()
	fmt.Printf("posted %d %.3f\n", *to-*from-int(failures.Load()), time.Since(begin).Seconds())
	return failure
}
