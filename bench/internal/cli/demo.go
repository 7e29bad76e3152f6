// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

const demoLong = `Makes two nodes and two pods out of network namespaces and sends the same messages, one a cycle, over

  direct             pod a, libktsn, ktsnd, VXLAN, pod b
  kernel-vxlan-spin  pod a, the kernel's bridge and VXLAN, pod b; the talker is awake before it sends, as ktsnd is
  kernel-vxlan       the same, and the talker sleeps until it sends, as in the papers
  host-spin          node a, node b, without pods and overlay; the talker is awake before it sends
  host               the same, and the talker sleeps until it sends
  ovs                pod a, libktsn, ktsnd, Open vSwitch with DPDK, pod b; skipped where it or hugepages cannot be had

in turns; and over path direct under a schedule (IEEE 802.1Qbv), with and without talkers that saturate the link.
Prints tables, writes report.html (with drawings, for a browser), tables.md, summary.json and messages.csv,
and removes everything else that it made. Needs root.
The exit status is 0 when the measurement is valid and no message of path direct was lost, early, or outside the
window of its class without ktsnd having noticed; figures that are not reached do not change it.`

const (
	// asideMessages and asidePayload are the size of runs of workloads keep-awake and pmd-sleep.
	asideMessages = 1000
	asidePayload  = 64
	// idleTime is how long ktsnd is watched with nothing to send.
	idleTime = 2 * time.Second
	// messagesName is the file with all messages of a demo, whose runs are not kept.
	messagesName = "messages.csv"
)

// demo has the options of a demo, which is a bench of a profile made from them.
type demo struct {
	// messages are sent for each path and payload, in alternations pieces.
	messages, alternations int
	payloads               []int
	cycle                  time.Duration
	paths, workloads       []string
}

func newDemo(env *commandline.Environment) *cobra.Command {
	d, run := &demo{}, &benchRun{env: env, demo: true}
	var short bool
	command := &cobra.Command{
		Use:   "demo",
		Short: "Compare KuberneTSN with the kernel's own paths",
		Long:  demoLong,
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if short {
				if err := shorten(command); err != nil {
					return err
				}
			}
			profile, err := d.profile()
			if err != nil {
				return err
			}
			err = run.measure(command.Context(), profile)
			if cause := context.Cause(command.Context()); err != nil && cause != nil {
				return fmt.Errorf("the demo was stopped before its end and removed what it had made: %w", cause)
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&run.out, "out", filepath.Join("out", "demo"), "folder for report.html, summary.json and messages.csv")
	flags.StringVar(&run.binDir, "bin-dir", filepath.Dir(env.Executable), "folder of ktsnd, libktsn.so and tsnperf")
	flags.IntVar(&d.messages, "messages", 5000, "messages per path and payload")
	flags.IntVar(&d.alternations, "alternations", 5, "pieces in which they are sent, the paths taking turns")
	flags.IntSliceVar(&d.payloads, "payloads", []int{64, 256, 1024}, "bytes of UDP payload")
	flags.DurationVar(&d.cycle, "cycle", time.Millisecond, "time between two messages")
	flags.StringSliceVar(&d.paths, "paths", engine.PodPaths, "paths to compare")
	flags.StringSliceVar(&d.workloads, "workloads", []string{results.WorkloadPlain, results.WorkloadKeepAwake, results.WorkloadPMDSleep,
		results.WorkloadGates, results.WorkloadGatesSaturated, results.WorkloadKernelSaturated}, "conditions under which to measure")
	flags.BoolVar(&short, "short", false, "200 messages of 64 B in one piece, without workloads keep-awake and pmd-sleep")
	flags.BoolVar(&run.quiet, "quiet", false, "no progress")
	run.format = "svg"
	return command
}

// shorten sets the options that the user did not set to those of a demo of seconds, which only shows what does not
// depend on the machine's state.
func shorten(command *cobra.Command) error {
	workloads := []string{results.WorkloadPlain, results.WorkloadGates, results.WorkloadGatesSaturated, results.WorkloadKernelSaturated}
	for name, value := range map[string]string{"messages": "200", "alternations": "1", "payloads": "64", "workloads": strings.Join(workloads, ",")} {
		if command.Flags().Changed(name) {
			continue
		}
		if err := command.Flags().Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// profile returns the demo's profile.
func (d *demo) profile() (*engine.Profile, error) {
	if d.alternations < 1 || d.messages/d.alternations < 2 {
		return nil, fmt.Errorf("%d messages in %d alternations; give at least two messages for each, and at least one alternation", d.messages, d.alternations)
	}
	profile := engine.Defaults()
	profile.Name, profile.About = "demo", "What `ktsn demo` measures."
	profile.Paths, profile.Payloads, profile.Cycles = d.paths, d.payloads, []time.Duration{d.cycle}
	profile.Messages, profile.Repetitions = d.messages/d.alternations, d.alternations
	profile.Workloads, profile.Samplers = nil, engine.SamplersOn // messages.csv has the wire's time of each message
	for _, name := range d.workloads {
		workload := engine.Workload{Name: name}
		switch {
		case engine.HasGates(name):
			workload.Payloads = []int{engine.GatesPayload}
		case name == results.WorkloadKeepAwake, name == results.WorkloadPMDSleep:
			workload.Payloads, workload.Messages = []int{asidePayload}, min(profile.Messages, max(asideMessages/d.alternations, 2))
		case name == results.WorkloadPlain && slices.Contains(d.paths, results.PathDirect):
			profile.Idle = idleTime
		}
		profile.Workloads = append(profile.Workloads, workload)
	}
	if fault := profile.Check(); fault != nil {
		return nil, fault
	}
	return &profile, nil
}

// terminalColumns is the width of out's terminal, 0 if there is none.
func terminalColumns(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 { // a terminal that does not know its width
		return 80
	}
	return int(size.Col)
}
