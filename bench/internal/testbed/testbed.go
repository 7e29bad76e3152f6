// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

// The names of paths of experiments with other people's programs.
const (
	Host          = "host"
	Flannel       = "flannel"
	FlannelHostGW = "flannel-host-gw"
	TSN           = "tsn"
	// Link is a point-to-point link between two pods.
	Link = "link"
	// Primary is the network that each pod of a cluster has, whichever it is.
	Primary = "primary"
)

// Testbed is a target with several networks. One goroutine.
type Testbed interface {
	engine.Target
	// Ends are the two sides of a network, for so many programs on the far one. They stay valid until it is called again.
	// linkMTU is what the link between the nodes shall carry, 0 for what it does.
	Ends(ctx context.Context, network string, linkMTU, far int) (near End, all []End, err error)
	// Watch looks at what does not belong to the ends until the function it returns is called, which says what they used, by
	// names of engine.Outcome's values.
	Watch(ctx context.Context) (func() (map[string]float64, error), error)
}

// End is where a program can be run at one end of a network.
type End interface {
	Address() netip.Addr
	// MTU is the network's there, 0 where nobody knows.
	MTU() int
	Start(ctx context.Context, command *Command) (Program, error)
}

// Command is a program with its arguments.
type Command struct {
	// Name is what sentences call it.
	Name string
	// Program is looked for where programs are there, and Package is the Debian package that has it.
	Program, Package string
	Arguments        []string
	// Environment has entries NAME=value.
	Environment []string
}

// Program is one that was started.
type Program interface {
	// Wait returns what it printed once it has ended. An error tells how it ended if not with exit status 0; what it printed
	// until then is there nevertheless.
	Wait(context.Context) (string, error)
	// Stop has it end, if it has not, and returns what it printed.
	Stop() (string, error)
}

// MemoryOf is the most memory that a program had, in bytes; false where nobody knows.
func MemoryOf(program Program) (float64, bool) {
	watched, ok := program.(interface{ MemoryBytes() (float64, bool) })
	if !ok {
		return 0, false
	}
	return watched.MemoryBytes()
}

// Of is the testbed that a target is.
func Of(target engine.Target) (Testbed, error) {
	here, ok := target.(Testbed)
	if !ok {
		return nil, fmt.Errorf("the target has no networks between which other programs could be run (%T)", target)
	}
	return here, nil
}

// Missing is a sentence about a program that is not there.
func Missing(command *Command) error {
	return fmt.Errorf("%s is not installed here; as root: apt-get install %s", command.Program, command.Package)
}

// Pause waits, or until ctx ends.
func Pause(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}

// Because is what a program printed that was no result, with how it ended where that says more.
func Because(err, ended error) error {
	if ended == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, ended)
}

// The names of values of every case: MachineCores is what all cores of the machine did, and what ends with Cores is a program's
// share of one.
const (
	MachineCores = "machine_cores"
	// PacketCores is the part of it that the kernel's packet processing takes outside of system calls (softirq).
	PacketCores = "softirq_cores"
	Cores       = "_cores"
	// Stolen is what the hypervisor gave to others.
	Stolen = "stolen_ns"
)

// Observe does something, and adds to the outcome what was used meanwhile.
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

// HasMulticast tells whether a network carries multicast between its ends: those that route do not, and of a cluster's own nothing
// is known.
func HasMulticast(path string) bool {
	return path == Host || path == TSN
}

// Router is a testbed whose nodes can also have a router between them, as those of two clusters.
type Router interface {
	Route(routed bool)
}

// Finder is a place that has a discovery of its own for who takes part in an experiment.
type Finder interface {
	Find(ctx context.Context, network string, near End, far []End) ([]netip.Addr, error)
}
