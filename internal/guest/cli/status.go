// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// status is the status of an interface.
type status struct {
	Interface string `json:"interface"`
	// Known is set if the host's time is known; BoundNs is its maximum error now. WidestBoundNs is the widest bound with which a frame left
	// since it was last cleared.
	Known         bool              `json:"known"`
	BoundNs       uint64            `json:"bound_ns"`
	WidestBoundNs uint64            `json:"widest_bound_ns"`
	AheadNs       int64             `json:"host_tai_ahead_of_guest_ns"`
	Sent          uint64            `json:"sent"`
	Refused       map[string]uint64 `json:"refused,omitempty"`
}

func newStatus(env *commandline.Environment) *cobra.Command {
	var chosen interfaces
	var format string
	var clearWidest bool
	command := &cobra.Command{
		Use:   "status --interface NAME",
		Short: "Show how well the host's time is known, and what was sent and dropped",
		Long: "Shows for each interface whether the host's time is known, how far what is known may be from the truth now and was at most\n" +
			"for any frame that left, by how much the host's CLOCK_TAI is ahead of this machine's, and how many frames with a transmit\n" +
			"time left with a record or were dropped.",
		Args: commandline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			names, err := chosen.resolve()
			if err != nil {
				return commandline.Usage(err)
			}
			all, err := readAll(names, clearWidest)
			if err != nil {
				return err
			}
			if format == "json" {
				return json.NewEncoder(env.Stdout).Encode(all)
			}
			return writeStatus(env.Stdout, all)
		},
	}
	chosen.add(command)
	commandline.OutputFlag(command, &format, "text or json", "text", "json")
	command.Flags().BoolVar(&clearWidest, "clear", false, "afterwards begin again with the widest bound")
	return command
}

func readAll(interfaces []string, clearWidest bool) ([]status, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, err
	}
	var all []status
	for _, name := range interfaces {
		count, clock, err := capture.ReadGuest(name)
		if err != nil {
			return nil, err
		}
		widest, err := capture.WidestBound(name, clearWidest)
		if err != nil {
			return nil, err
		}
		nowNs := uint64(now.Nano())
		all = append(all, status{
			Interface: name, Known: clock.UntilNs > nowNs, BoundNs: clock.BoundAt(nowNs), WidestBoundNs: widest, AheadNs: clock.AheadNs[0],
			Sent: count.Captured, Refused: count.Refused,
		})
	}
	return all, nil
}

func writeStatus(out io.Writer, all []status) error {
	var text strings.Builder
	for _, status := range all {
		known := "is not known"
		if status.Known {
			known = fmt.Sprintf("is known, within %v: CLOCK_TAI is %v ahead", time.Duration(status.BoundNs), time.Duration(status.AheadNs))
		}
		fmt.Fprintf(&text, "%s: the host's time %s\n  %d frames left with their transmit time, within %v at most\n", status.Interface, known, status.Sent,
			time.Duration(status.WidestBoundNs))
		for _, reason := range slices.Sorted(maps.Keys(status.Refused)) {
			fmt.Fprintf(&text, "  %d were dropped: %s\n", status.Refused[reason], capture.Explain(reason))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
