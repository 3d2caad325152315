package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

type group struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Attempt       int64 `json:"attempt"`
		ReportSeconds int   `json:"reportSeconds"`
		Pods          []struct {
			Slot int    `json:"slot"`
			UID  string `json:"uid"`
		} `json:"pods"`
	} `json:"spec"`
}

// Stands for the leading launchers of all gangs: each commits generation 1 of its attempt and then reports progress
// every spec.reportSeconds, as launchers do. Prints "reporting" when that begins, "reported COUNT SECONDS" at the end.
func report(ctx context.Context, arguments []string) error {
	flags, c := newFlags("report")
	seconds := flags.Float64("seconds", 60, "how long")
	settle := flags.Float64("settle", 5, "generations are committed during this time, and no progress is reported")
	if err := parse(flags, arguments, c); err != nil {
		return err
	}
	if err := c.open(64); err != nil {
		return err
	}
	status, body, err := c.call(ctx, "GET", "/apis/pawl.dev/v1alpha1/workergroups", "", nil)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("list WorkerGroups: %d %w", status, err)
	}
	var list struct {
		Items []group `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	begin := time.Now()
	end := begin.Add(time.Duration((*settle + *seconds) * float64(time.Second)))
	until, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	var reports, failures atomic.Int64
	announce := time.AfterFunc(time.Until(begin.Add(time.Duration(*settle*float64(time.Second)))), func() { fmt.Println("reporting") })
	defer announce.Stop()
	var gangs sync.WaitGroup
	for _, g := range list.Items {
		gangs.Go(func() {
			if err := c.commit(until, &g); err != nil {
				failures.Add(1)
				fmt.Println("failed", err)
				return
			}
			start := begin.Add(time.Duration(*settle * float64(time.Second)))
			for due := start.Add(rand.N(g.every())); due.Before(end); due = due.Add(g.every()) {
				select {
				case <-until.Done():
					return
				case <-time.After(time.Until(due)):
				}
				if err := c.progress(until, &g, int(time.Since(begin)/time.Second)); err != nil {
					failures.Add(1)
					continue
				}
				reports.Add(1)
			}
		})
	}
	gangs.Wait()
	fmt.Printf("reported %d %.3f\n", reports.Load(), *seconds)
	if failures.Load() > 0 {
		return fmt.Errorf("%d reports were refused", failures.Load())
	}
	return nil
}

func (g *group) every() time.Duration {
	return time.Duration(max(g.Spec.ReportSeconds, 1)) * time.Second
}

// The answer tells whether the operator wants another interval by now; launchers see that by their watch.
func (c *connection) patchStatus(ctx context.Context, g *group, fields map[string]any) error {
	body, err := json.Marshal(map[string]any{"status": fields})
	if err != nil {
		return err
	}
	path := "/apis/pawl.dev/v1alpha1/namespaces/" + g.Metadata.Namespace + "/workergroups/" + g.Metadata.Name + "/status"
	status, answer, err := c.call(ctx, "PATCH", path, "application/merge-patch+json", body)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s: %d %s", path, status, answer)
	}
	if err == nil {
		err = json.Unmarshal(answer, g)
	}
	return err
}

func (c *connection) commit(ctx context.Context, g *group) error {
	var members []map[string]any
	for _, pod := range g.Spec.Pods {
		members = append(members, map[string]any{"uid": pod.UID, "start": "s", "address": "10.0.0.1:41000", "rank": pod.Slot})
	}
	return c.patchStatus(ctx, g, map[string]any{"attempt": g.Spec.Attempt, "term": 1, "generation": 1, "members": members})
}

func (c *connection) progress(ctx context.Context, g *group, step int) error {
	return c.patchStatus(ctx, g, map[string]any{"progress": map[string]any{
		"step": step, "totalSteps": 100000, "loss": fmt.Sprintf("%.4f", 4/(1+float64(step)/100)),
		"time": time.Now().UTC().Format(time.RFC3339)}})
}
