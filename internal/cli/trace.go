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

const traceLong = `Traces single messages: when the application called, when ktsnd took the message, when it was due, when it left or was
dropped, and its outcome. Prints a line for each message when it ends, until N messages or an interrupt. CALLED, TAKEN
and SENT are in ns relative to DUE, the transmit time; "-" if the library did not report when the call began. POD is the
pod's name in a cluster, or its identity; "-" if the flow had ended.

With --chain it shows the links that the packets of a pod of a Kubernetes cluster take, pod by pod, whether each link is
up and keeps transmit times, and who answers test packets.`

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
		Short: "Trace single messages from the call to the wire",
		Long:  traceLong,
		Args:  commandline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if whole {
				ofChain.control, ofChain.pod, ofChain.format = path, options.pod, options.format
				return traceChain(command.Context(), &ofChain, env.Stdout)
			}
			if ofChain.to != "" || ofChain.interfaceName != "" {
				return errors.New("--to and --interface require --chain")
			}
			err := withLastingClient(command.Context(), path, func(ctx context.Context, client *control.Client) error {
				return trace(ctx, client, options, env.Stdout, env.Stderr)
			})
			return ignoreInterrupt(command.Context(), err)
		},
	}
	addControl(command, &path)
	addClusterFlags(command, &ofChain.clusterFlags)
	flags := command.Flags()
	flags.BoolVar(&whole, "chain", false, "show the links that packets of --pod take, in a Kubernetes cluster")
	flags.StringVar(&ofChain.interfaceName, "interface", "", "with --chain: only the link at the pod's interface `NAME`")
	flags.StringVar(&ofChain.to, "to", "", "with --chain: find the hops from a pod of this node to `ADDRESS`")
	flags.StringVar(&options.pod, "pod", "", "only messages of the pod with this name, such as default/app, or identity")
	flags.Uint64Var(&options.flow, "flow", 0, "only messages of the flow with this number; 0: all")
	flags.Uint64Var(&options.count, "count", 0, "number of messages after which to end; 0: no limit")
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

// traceAdvice replaces the names of ktsnd's fields in an error by those of options.
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

// traced is a message and its pod.
type traced struct {
	control.TracedMessage
	Identity string `json:"identity"`
	Name     string `json:"name"`
}

const tracedRow = "%6s %3s %6s %12s %12s %38s %12s  %-16s  %s\n"

// tracedWriter writes the head of a table and returns a function that writes a message.
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

// formatDue formats a transmit time. An application may set a negative one, which is shown as a number.
func formatDue(tai int64) string {
	if tai < 0 {
		return strconv.FormatInt(tai, 10)
	}
	return schedule.FormatTime(control.PTPTime{Seconds: uint64(tai / 1e9), Nanoseconds: uint32(tai % 1e9)})
}

// relative returns the signed difference. It saturates, because an application may set any transmit time.
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
