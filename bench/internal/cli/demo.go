// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/bench/internal/demo"
	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
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
Prints a table, writes report.html (with drawings, for a browser), summary.json and messages.csv,
and removes everything it made. Needs root.
The exit status is 0 when the measurement is valid and no message of path direct was lost, early, or outside the
window of its class without ktsnd having noticed; figures that are not reached do not change it.`

// short is a demo that takes seconds, and only shows what does not depend on the machine's state.
const (
	shortMessages     = 200
	shortAlternations = 1
	shortPayload      = 64
)

func newDemo(env *commandline.Environment) *cobra.Command {
	config := &demo.Config{Report: env.Stdout, Progress: env.Stderr, Now: time.Now}
	var short, quiet bool
	command := &cobra.Command{
		Use:   "demo",
		Short: "Measure KuberneTSN beside the kernel's own paths",
		Long:  demoLong,
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if short {
				shorten(command, config)
			}
			if quiet {
				config.Progress = io.Discard
			}
			config.ProgressColumns = terminalColumns(config.Progress)
			return demo.Run(command.Context(), config)
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.OutDir, "out", filepath.Join("out", "demo"), "folder for report.html, summary.json and messages.csv")
	flags.StringVar(&config.BinDir, "bin-dir", filepath.Dir(env.Executable), "folder of ktsnd, libktsn.so and tsnperf")
	flags.IntVar(&config.Messages, "messages", 5000, "messages per path and payload")
	flags.IntVar(&config.Alternations, "alternations", 5, "pieces in which they are sent, the paths taking turns")
	flags.IntSliceVar(&config.Payloads, "payloads", []int{64, 256, 1024}, "bytes of UDP payload")
	flags.DurationVar(&config.Cycle, "cycle", time.Millisecond, "time between two messages")
	flags.StringSliceVar(&config.Paths, "paths", engine.PodPaths, "paths to compare")
	flags.StringSliceVar(&config.Workloads, "workloads", demo.AllWorkloads, "conditions under which to measure")
	flags.BoolVar(&short, "short", false, "200 messages of 64 B in one piece, without workloads keep-awake and pmd-sleep")
	flags.BoolVar(&quiet, "quiet", false, "no progress")
	return command
}

// shorten sets the options that the user did not set.
func shorten(command *cobra.Command, config *demo.Config) {
	for name, set := range map[string]func(){
		"messages":     func() { config.Messages = shortMessages },
		"alternations": func() { config.Alternations = shortAlternations },
		"payloads":     func() { config.Payloads = []int{shortPayload} },
		"workloads":    func() { config.Workloads = demo.ShortWorkloads },
	} {
		if !command.Flags().Changed(name) {
			set()
		}
	}
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
