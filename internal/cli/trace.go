// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// tracePause is the pause after a read without messages.
const tracePause = 100 * time.Millisecond

const traceLong = `Follows single messages: when the application called, when ktsnd took the message, when it was due, when it left
or was dropped, and what became of it. One line a message, as it ends, until N messages or an interrupt.
Times are in ns relative to the transmit time, which stands in the line; "-" where the library did not say when
the call began. POD is the name that it has in a cluster, else its identity; "-" where the flow had ended.

With --chain it shows instead over which links the packets of a pod of a Kubernetes cluster go, pod by pod, whether each
link is up and keeps transmit times, and who answers packets that are really sent.`

// traceOptions select the messages of a trace.
type traceOptions struct {
	pod    string
	flow   uint64
	count  uint64
	format string
}

func newTrace(env *commandline.Environment) *cobra.Command {
	var path string
	var options traceOptions
	var ofChain chainOptions
	var whole bool
	command := &cobra.Command{
		Use:   "trace",
		Short: "Follow single messages from the call to the wire",
		Long:  traceLong,
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if whole {
				ofChain.control, ofChain.pod, ofChain.format = path, options.pod, options.format
				return traceChain(command.Context(), &ofChain, env.Stdout)
			}
			if ofChain.to != "" || ofChain.interfaceName != "" {
				return errors.New("--to and --interface are of --chain; add it")
			}
			err := withLastingClient(command.Context(), path, func(ctx context.Context, client *control.Client) error {
				return trace(ctx, client, options, env.Stdout, env.Stderr)
			})
			return endless(command.Context(), err)
		},
	}
	addControl(command, &path)
	addWhere(command, &ofChain.where)
	flags := command.Flags()
	flags.BoolVar(&whole, "chain", false, "show the way of the packets of --pod over its links, in a Kubernetes cluster")
	flags.StringVar(&ofChain.interfaceName, "interface", "", "with --chain: only the link by the pod's interface of this `NAME`")
	flags.StringVar(&ofChain.to, "to", "", "with --chain: ask who forwards packets from a pod of this node to this `ADDRESS`")
	flags.StringVar(&options.pod, "pod", "", "only messages of the pod of this name, such as default/app, or identity")
	flags.Uint64Var(&options.flow, "flow", 0, "only messages of the flow of this number; 0: all")
	flags.Uint64Var(&options.count, "count", 0, "end after so many messages; 0: go on")
	commandline.OutputFlag(command, &options.format, "text, wide (with the pods' identities), or json: one object a line", "text", "wide", "json")
	return command
}

// trace prints messages until the requested number is reached or ctx is done. The trace ends with the connection.
func trace(ctx context.Context, client *control.Client, options traceOptions, stdout, stderr io.Writer) error {
	identity, err := tracedPod(ctx, client, options.pod)
	if err != nil {
		return err
	}
	if err := client.TraceStart(ctx, identity, options.flow); err != nil {
		return traceAdvice(err)
	}
	write := tracedWriter(stdout, options.format)
	pods := &flowPods{client: client, identities: map[uint64]string{}}
	var after, shown uint64
	for {
		messages, overwritten, err := client.TraceRead(ctx, after)
		if err == nil {
			err = pods.learn(ctx, messages)
		}
		if err != nil {
			return err
		}
		if overwritten > 0 {
			fmt.Fprintf(stderr, "ktsn: %d messages were overwritten before they could be read\n", overwritten)
		}
		for _, message := range messages {
			identity := pods.identities[message.Flow]
			if err := write(traced{message, identity, pods.names[identity]}); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			after = message.Sequence
			if shown++; shown == options.count {
				return client.TraceStop(ctx)
			}
		}
		if len(messages) == 0 && retry.Pause(ctx, tracePause) != nil {
			return ctx.Err()
		}
	}
}

// tracedPod returns the identity of the selected pod; empty for all.
func tracedPod(ctx context.Context, client *control.Client, wanted string) (string, error) {
	if wanted == "" {
		return "", nil
	}
	pods, err := client.Pods(ctx)
	if err != nil {
		return "", err
	}
	identity, err := identityOf(pods, wanted)
	if err != nil {
		return "", fmt.Errorf("--pod %w", err)
	}
	return identity, nil
}

// traceAdvice names the options that ktsnd's fields stand for.
func traceAdvice(err error) error {
	var refusal *control.Error
	if errors.As(err, &refusal) && refusal.Field == "identity" {
		return fmt.Errorf("--pod %s", strings.ReplaceAll(refusal.Message, `"pods" lists`, "`ktsn status` lists"))
	}
	if errors.As(err, &refusal) && refusal.Field == "flow" {
		return fmt.Errorf("--flow %s", strings.ReplaceAll(refusal.Message, `"flows" lists`, "`ktsn status` lists"))
	}
	return err
}

// traced is a message, and whose it is.
type traced struct {
	control.TracedMessage
	Identity string `json:"identity"`
	Name     string `json:"name"`
}

const tracedRow = "%6s %3s %6s %12s %12s %38s %12s  %-16s  %s\n"

// tracedWriter writes the head of a table, and returns what writes a message.
func tracedWriter(out io.Writer, format string) func(traced) error {
	if format == "json" {
		return func(message traced) error { return json.NewEncoder(out).Encode(message) }
	}
	wide := format == "wide"
	head := "POD"
	if wide {
		head = "IDENTITY                              POD"
	}
	fmt.Fprintf(out, tracedRow, "FLOW", "TC", "BYTES", "CALLED", "TAKEN", "DUE (TAI)", "SENT", "OUTCOME", head)
	return func(message traced) error { return printTraced(out, message, wide) }
}

func printTraced(out io.Writer, message traced, wide bool) error {
	called := "-"
	if message.CalledTAI != 0 {
		called = relative(message.CalledTAI, message.DueTAI)
	}
	ended := relative(message.EndedTAI, message.DueTAI)
	if !message.Sent() {
		ended = "never"
	}
	pod := cmp.Or(message.Name, message.Identity, "-")
	if wide {
		pod = fmt.Sprintf("%-36s  %s", cmp.Or(message.Identity, "-"), pod)
	}
	_, err := fmt.Fprintf(out, tracedRow, strconv.FormatUint(message.Flow, 10), strconv.Itoa(int(message.TrafficClass)),
		strconv.FormatUint(uint64(message.PayloadBytes), 10), called, relative(message.TakenTAI, message.DueTAI), formatDue(message.DueTAI),
		ended, message.Outcome, pod)
	return err
}

// formatDue shows a time that makes no sense, which an application may have given, as the number it is.
func formatDue(tai int64) string {
	if tai < 0 {
		return strconv.FormatInt(tai, 10)
	}
	return schedule.FormatTime(control.PTPTime{Seconds: uint64(tai / 1e9), Nanoseconds: uint32(tai % 1e9)})
}

// relative is the signed distance, as far as it can be told: the application's times are what it wants.
func relative(tai, dueTAI int64) string {
	distance := tai - dueTAI
	switch {
	case tai > dueTAI && distance < 0:
		distance = math.MaxInt64
	case tai < dueTAI && distance > 0:
		distance = math.MinInt64
	}
	return fmt.Sprintf("%+d", distance)
}
