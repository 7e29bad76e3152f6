// SPDX-License-Identifier: Apache-2.0

// Package testbed defines the environment of experiments with other programs: two nodes with several networks between
// them, and programs at both ends of each. Package netnstestbed implements it with network namespaces, package
// clustertarget with pods.
package testbed

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

// The names of paths of experiments with other programs.
const (
	Host          = "host"
	Flannel       = "flannel"
	FlannelHostGW = "flannel-host-gw"
	TSN           = "tsn"
	// Link is a point-to-point link between two pods.
	Link = "link"
	// Primary is the default network of a cluster's pods.
	Primary = "primary"
)

// Testbed is a target with several networks. It is not safe for concurrent use.
type Testbed interface {
	engine.Target
	// Ends returns the two sides of a network, with a number of programs on the far one. They are valid until the next
	// call. linkMTU is the MTU of the link between the nodes, 0 for its current one.
	Ends(ctx context.Context, network string, linkMTU, far int) (near End, all []End, err error)
	// Watch observes what does not belong to the ends until the returned function is called, which returns the usage by
	// names of engine.Outcome's values.
	Watch(ctx context.Context) (func() (map[string]float64, error), error)
}

// End is one end of a network, where a program can run.
type End interface {
	Address() netip.Addr
	// MTU is the network's, 0 if it is unknown.
	MTU() int
	Start(ctx context.Context, command *Command) (Program, error)
}

// Command is a program with its arguments.
type Command struct {
	// Name is the name in messages.
	Name string
	// Program is searched on the path, and Package is its Debian package.
	Program, Package string
	Arguments        []string
	// Environment has entries NAME=value.
	Environment []string
}

// Program is a started program.
type Program interface {
	// Wait returns the output after the program has ended. It fails if the exit status is not 0; the output is returned
	// nevertheless.
	Wait(context.Context) (string, error)
	// Stop ends the program, if it runs, and returns its output.
	Stop() (string, error)
}

// MemoryOf returns the peak memory of a program in bytes; false if it is unknown.
func MemoryOf(program Program) (float64, bool) {
	watched, ok := program.(interface{ MemoryBytes() (float64, bool) })
	if !ok {
		return 0, false
	}
	return watched.MemoryBytes()
}

// From returns the testbed that a target is.
func From(target engine.Target) (Testbed, error) {
	here, ok := target.(Testbed)
	if !ok {
		return nil, fmt.Errorf("the target has no networks between which other programs could be run (%T)", target)
	}
	return here, nil
}

// Missing returns an error about a missing program.
func Missing(command *Command) error {
	return fmt.Errorf("%s is not installed here; as root: apt-get install %s", command.Program, command.Package)
}

// Because returns a program's invalid output as an error, with its exit status if that says more.
func Because(err, ended error) error {
	if ended == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, ended)
}

// Names of values of every case: MachineCores is the usage of all cores of the machine, and names that end with Cores
// are the shares of one core of programs.
const (
	MachineCores = "machine_cores"
	// PacketCores is the part of the kernel's packet processing outside of system calls (softirq).
	PacketCores = "softirq_cores"
	Cores       = "_cores"
	// Stolen is what the hypervisor gave to others.
	Stolen = "stolen_ns"
)

// Observe calls a function, and adds the usage meanwhile to the outcome.
func Observe(ctx context.Context, here Testbed, outcome *engine.Outcome, do func() error) error {
	finish, err := here.Watch(ctx)
	if err != nil {
		return err
	}
	errDone := do()
	used, err := finish()
	if errDone != nil {
		return errDone
	}
	if counting, ok := here.(interface {
		Usage(context.Context) ([]results.UsageSample, error)
	}); ok && err == nil {
		outcome.Usage, err = counting.Usage(ctx)
	}
	for name, value := range used {
		if name == Stolen {
			outcome.StolenNs = int64(value)
			continue
		}
		outcome.Values[name] = value
	}
	return err
}

// HasMulticast reports whether a network carries multicast between its ends: routed ones do not, and a cluster's own is
// unknown.
func HasMulticast(path string) bool {
	return path == Host || path == TSN
}

// Router is a testbed whose nodes can also have a router between them, like nodes of two clusters.
type Router interface {
	Route(routed bool)
}

// Finder is a testbed with its own discovery of an experiment's participants.
type Finder interface {
	Find(ctx context.Context, network string, near End, far []End) ([]netip.Addr, error)
}
