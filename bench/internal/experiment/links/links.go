// SPDX-License-Identifier: Apache-2.0

// Package links is the experiment on point-to-point links between pods, in three parts:
//
//	transfers  experiment throughput (TCP, UDP, SCTP, ping) over a link, Flannel's VXLAN and the bare link
//	timed      messages with a transmit time over a link and over an ordinary network of ktsnd
//	many       the cost of plugging many links: time, memory, and processor time while nothing is sent
//
// The files: links (cases and settings), timed and many (a part each), report and figures.
// Threads: one goroutine.
package links

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/experiment/throughput"
	"github.com/kubernetsn/kubernetsn/bench/internal/netnstestbed"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/internal/testlab/podnetworks"
)

// Name is the experiment's name in profiles.
const Name = "links"

// The parts.
const (
	transfers = "transfers"
	timed     = "timed"
	many      = "many"
)

// Experiment has the settings of a profile; part transfers has those of experiment throughput.
type Experiment struct {
	throughput.Experiment
	Parts []string `json:"parts"`
	// Messages of PayloadBytes each are sent every Cycle, handed over Lead before.
	Messages     int           `json:"messages"`
	PayloadBytes int           `json:"payload"`
	Cycle        time.Duration `json:"cycle"`
	Lead         time.Duration `json:"lead"`
	// Numbers are the numbers of plugged links, and Rest is how long they are watched while nothing is sent.
	Numbers []int         `json:"links"`
	Rest    time.Duration `json:"rest"`
}

// New is the experiment with its defaults.
func New() engine.Experiment {
	return &Experiment{
		Experiment: *throughput.New().(*throughput.Experiment), Parts: []string{timed, transfers},
		Messages: 2000, PayloadBytes: 64, Cycle: time.Millisecond, Lead: 2500 * time.Microsecond,
		Numbers: []int{10, 100, 1000}, Rest: 5 * time.Second,
	}
}

// mostMessages is below the number of departures that ktsnd stores.
const mostMessages = 50_000

// Fields implements engine.Experiment.
func (e *Experiment) Fields() engine.Fields {
	fields := maps.Clone(e.Experiment.Fields())
	maps.Copy(fields, engine.Fields{
		"parts":    engine.Words(&e.Parts, timed, transfers, many),
		"messages": engine.Within(&e.Messages, 10, mostMessages),
		"payload":  engine.Within(&e.PayloadBytes, 40, 1024),
		"cycle":    engine.Within(&e.Cycle, 200*time.Microsecond, time.Second),
		"lead":     engine.Within(&e.Lead, 500*time.Microsecond, 100*time.Millisecond),
		"links":    engine.Numbers(&e.Numbers, 1, podnetworks.MaxLinks-1),
		"rest":     engine.Within(&e.Rest, time.Second, time.Minute),
	})
	return fields
}

// Check implements engine.Experiment.
func (e *Experiment) Check(profile *engine.Profile) error {
	if profile.Target == engine.Cluster.Name {
		return errors.New("links are measured between network namespaces; leave --kubeconfig out")
	}
	if !slices.Contains(profile.Paths, testbed.Link) {
		return fmt.Errorf("links is about path %s, and the paths are %v; add it", testbed.Link, profile.Paths)
	}
	if !slices.Contains(e.Parts, transfers) {
		return nil
	}
	return e.Experiment.Check(transferring(profile))
}

// Means are the networks to measure over. A cluster's own objects create its links.
func (*Experiment) Means(target string) *engine.Means { return testbed.PointToPoint(target) }

// Compared implements engine.Experiment.
func (e *Experiment) Compared() []string {
	return append(e.Experiment.Compared(), sampleDeparted+"_p50", sampleLatency+"_p50", valueMemory, samplePlug+"_p50")
}

// transferring is the profile with the paths of part transfers: experiment throughput measures network tsn.
func transferring(profile *engine.Profile) *engine.Profile {
	only := *profile
	only.Paths = slices.DeleteFunc(slices.Clone(profile.Paths), func(path string) bool { return path == testbed.TSN })
	return &only
}

// Cases implements engine.Experiment.
func (e *Experiment) Cases(profile *engine.Profile) []engine.Case {
	var all []engine.Case
	if slices.Contains(e.Parts, timed) {
		for _, path := range timedPaths(profile) {
			all = append(all, engine.Case{Name: timed, Path: path, LastsNs: (time.Duration(e.Messages)*e.Cycle + timedOverhead).Nanoseconds()})
		}
	}
	if slices.Contains(e.Parts, transfers) {
		all = append(all, e.Experiment.Cases(transferring(profile))...)
	}
	if slices.Contains(e.Parts, many) {
		for _, number := range e.Numbers {
			lasts := e.Rest + manyOverhead + time.Duration(number)*perLink
			all = append(all, engine.Case{Name: manyName(number), Path: testbed.Link, LastsNs: lasts.Nanoseconds()})
		}
	}
	return all
}

// Perform implements engine.Experiment.
func (e *Experiment) Perform(ctx context.Context, target engine.Target, profile *engine.Profile, c *engine.Case) (*engine.Outcome, error) {
	if isTransfer(c.Name) {
		return e.Experiment.Perform(ctx, target, profile, c)
	}
	here, ok := target.(*netnstestbed.Testbed)
	if !ok {
		return nil, errors.New("links are measured between network namespaces only")
	}
	here.Route(false)
	near, far, err := here.Ends(ctx, c.Path, e.MTUs[0], 1)
	if err != nil {
		return nil, err
	}
	if c.Name == timed {
		return e.performTimed(ctx, here, near, far[0])
	}
	number, err := strconv.Atoi(strings.TrimPrefix(c.Name, manyPrefix))
	if err != nil {
		return nil, err
	}
	return e.performMany(ctx, here, near, number)
}

// isTransfer reports whether a case is of experiment throughput.
func isTransfer(name string) bool { return name != timed && !strings.HasPrefix(name, manyPrefix) }
