// SPDX-License-Identifier: Apache-2.0

// Package dds is the experiment of Kang, DDS in Multi-platform Kubernetes (the DDS Foundation's guidebook, use case 6),
// with Cyclone DDS and its ddsperf instead of Connext DDS and PerfTest: the cost of pod networks for publish and
// subscribe.
//
// The paper's framework consists of a deployer (here packages netnstestbed and clustertarget, which create networks and
// pods), test pods, a monitor (usage of processes, nodes and pods), and a manager (package engine with this experiment:
// profile, commands, progress, results). The paper's experiments are parts here: overhead (its 2, with table 1),
// best-effort (3), subscribers (4), security (5). Its experiment 1, with and without a container, needs programs on
// nodes, which neither target has.
package dds

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/ddsperf"
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
)

// Name is the experiment's name in profiles.
const Name = "dds"

// The parts.
const (
	overhead    = "overhead"
	bestEffort  = "best-effort"
	subscribers = "subscribers"
	security    = "security"
)

// Experiment has the settings of a profile.
type Experiment struct {
	Parts []string `json:"parts"`
	// Sizes are bytes of a sample, in parts overhead and best-effort.
	Sizes []int `json:"sizes"`
	// Subscribers are the numbers of subscribers in part subscribers, with samples of Size; Size is that of part
	// security, too.
	Subscribers []int `json:"subscribers"`
	Size        int   `json:"size"`
	// Levels of DDS Security, on SecurityPaths.
	Levels        []string `json:"levels"`
	SecurityPaths []string `json:"security-paths"`
	// Duration is how long each publisher publishes.
	Duration time.Duration `json:"duration"`

	// authority certifies participants; it is created when it is needed.
	authority *ddsperf.Authority
}

// New returns the paper's sizes and numbers with shorter durations.
func New() engine.Experiment {
	return &Experiment{Parts: []string{overhead, bestEffort, subscribers, security}, Sizes: []int{64, 256, 1024, 4096, 16384},
		Subscribers: []int{4, 8, 12}, Size: 1024, Levels: ddsperf.Levels(), SecurityPaths: []string{testbed.TSN}, Duration: 4 * time.Second}
}

// Fields are the settings below `with`.
func (e *Experiment) Fields() engine.Fields {
	return engine.Fields{
		"parts":          engine.Words(&e.Parts, overhead, bestEffort, subscribers, security),
		"sizes":          engine.Numbers(&e.Sizes, ddsperf.MinBytes, ddsperf.MaxBytes),
		"subscribers":    engine.Numbers(&e.Subscribers, 1, ddsperf.MaxSubscribers),
		"size":           engine.Within(&e.Size, ddsperf.MinBytes, ddsperf.MaxBytes),
		"levels":         engine.Words(&e.Levels, ddsperf.Levels()...),
		"security-paths": engine.Words(&e.SecurityPaths, testbed.Host, testbed.Flannel, testbed.FlannelHostGW, testbed.Primary, testbed.TSN),
		"duration":       engine.Within(&e.Duration, shortest, 10*time.Minute),
	}
}

// shortest leaves one second of samples without the first and the last.
const shortest = 3 * time.Second

// Check rejects settings that are impossible to measure.
func (e *Experiment) Check(profile *engine.Profile) error {
	if e.Duration%time.Second != 0 {
		return fmt.Errorf("duration: %v; give whole seconds, such as 4s", e.Duration)
	}
	if slices.Contains(e.Parts, security) && len(e.securityPaths(profile)) == 0 {
		return fmt.Errorf("security-paths: none of %v is among the paths %v; add it there, or leave part security out", e.SecurityPaths, profile.Paths)
	}
	if len(e.Cases(profile)) == 0 {
		return errors.New("parts: nothing of them can be measured on these paths")
	}
	return nil
}

// Compared are throughput and latency.
func (*Experiment) Compared() []string { return []string{valueBps, valueMean, valueP90} }

// Means are the networks to measure over.
func (*Experiment) Means(target string) *engine.Means { return testbed.Means(target) }

func (e *Experiment) securityPaths(profile *engine.Profile) []string {
	return slices.DeleteFunc(slices.Clone(profile.Paths), func(path string) bool { return !slices.Contains(e.SecurityPaths, path) })
}

// measure is ddsperf's mode.
const (
	throughput = "throughput"
	latency    = "latency"
)

// kind is a case without its path.
type kind struct {
	measure     string
	bytes       int
	subscribers int
	bestEffort  bool
	multicast   bool
	level       string
}

// plain has one subscriber, reliable, without multicast and security.
func plain(measure string, bytes int) kind {
	return kind{measure: measure, bytes: bytes, subscribers: 1, level: ddsperf.NoSecurity}
}

// name identifies the kind.
func (k kind) name() string {
	name := fmt.Sprintf("%s-%dB-%d", k.measure, k.bytes, k.subscribers)
	if k.bestEffort {
		name += "-best-effort"
	}
	if k.multicast {
		name += "-multicast"
	}
	if k.level != ddsperf.NoSecurity {
		name += "-" + k.level
	}
	return name
}

// lasts is the approximate duration: discovery grows with the participants, and subscribers end one after the other.
func (e *Experiment) lasts(k kind) time.Duration {
	lasts := e.Duration + time.Second + time.Duration(k.subscribers)*50*time.Millisecond
	if k.level != ddsperf.NoSecurity {
		lasts += time.Second
	}
	return lasts
}

// on are kinds with their paths.
type on struct {
	kind
	paths []string
}

// kinds returns those of all parts, each on each path once, even if several parts have it. Kinds that are compared with
// each other, such as a level of security with none, are adjacent, so that disturbances affect both.
func (e *Experiment) kinds(profile *engine.Profile) []on {
	var all []on
	add := func(k kind, paths []string) {
		paths = slices.Clone(paths)
		for _, other := range all {
			if other.kind == k {
				paths = slices.DeleteFunc(paths, func(path string) bool { return slices.Contains(other.paths, path) })
			}
		}
		if len(paths) > 0 {
			all = append(all, on{k, paths})
		}
	}
	for _, part := range e.Parts {
		switch part {
		case overhead:
			for _, bytes := range e.Sizes {
				add(plain(throughput, bytes), profile.Paths)
				add(plain(latency, bytes), profile.Paths)
			}
		case bestEffort:
			for _, bytes := range e.Sizes {
				add(plain(latency, bytes), profile.Paths)
				k := plain(latency, bytes)
				k.bestEffort = true
				add(k, profile.Paths)
			}
		case subscribers:
			for _, count := range e.Subscribers {
				e.addSubscribers(count, profile, add)
			}
		case security:
			for _, level := range e.Levels {
				for _, measure := range []string{throughput, latency} {
					k := plain(measure, e.Size)
					k.level = level
					paths := e.securityPaths(profile)
					if level == ddsperf.NoSecurity && slices.Contains(e.Parts, overhead) && slices.Contains(e.Sizes, e.Size) {
						continue // part overhead has it
					}
					add(k, paths)
				}
			}
		}
	}
	return besideEachOther(all)
}

// besideEachOther moves kinds that differ only in the manner of sending after the first of their like.
func besideEachOther(all []on) []on {
	like := func(a, other on) bool {
		return a.measure == other.measure && a.bytes == other.bytes && a.subscribers == other.subscribers
	}
	first := func(entry on) int { return slices.IndexFunc(all, func(other on) bool { return like(entry, other) }) }
	return slices.SortedStableFunc(slices.Values(all), func(a, b on) int { return first(a) - first(b) })
}

func (e *Experiment) addSubscribers(count int, profile *engine.Profile, add func(kind, []string)) {
	multicast := slices.DeleteFunc(slices.Clone(profile.Paths), func(path string) bool { return !testbed.HasMulticast(path) })
	for _, measure := range []string{throughput, latency} {
		k := plain(measure, e.Size)
		k.subscribers = count
		add(k, profile.Paths)
		k.multicast = true
		add(k, multicast)
	}
}

// Cases are all kinds; paths are innermost.
func (e *Experiment) Cases(profile *engine.Profile) []engine.Case {
	var all []engine.Case
	for _, current := range e.kinds(profile) {
		for _, path := range current.paths {
			all = append(all, engine.Case{Name: current.name(), Path: path, LastsNs: e.lasts(current.kind).Nanoseconds()})
		}
	}
	return all
}
