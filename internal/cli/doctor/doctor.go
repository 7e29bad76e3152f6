// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
	"github.com/kubernetsn/kubernetsn/internal/node/hostsettings"
	"github.com/kubernetsn/kubernetsn/internal/node/machine"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// Level is the severity of a finding.
type Level string

// Levels.
const (
	OK   Level = "ok"
	Note Level = "note" // may be intended
	Bad  Level = "bad"  // timed traffic does not work
)

// Finding is the result of one check.
type Finding struct {
	Level Level  `json:"level"`
	About string `json:"about"`
	Text  string `json:"text"`
	// Mend is the remedy; empty if there is none.
	Mend string `json:"mend,omitempty"`
}

// State is the output of `ktsn status -o json`.
type State struct {
	Status    *control.Status            `json:"status"`
	Instance  *control.Instance          `json:"instance"`
	Endpoints []control.AttachedEndpoint `json:"endpoints"`
	Pods      []control.Pod              `json:"pods"`
	Flows     []control.Flow             `json:"flows"`
	Peers     []control.Peer             `json:"peers"`
	Clocks    []control.NetworkClock     `json:"network-clocks"`
	Devices   []machine.Machine          `json:"devices"`
}

// Doctor runs checks.
type Doctor struct {
	Cluster *clusterreader.Cluster
	// AskKtsnd returns the state of a node's ktsnd.
	AskKtsnd func(ctx context.Context, node string) (*State, error)
	// AskCapture returns the capture counters of a node's pods.
	AskCapture func(ctx context.Context, node string) ([]capture.At, error)
	// AskSettings returns the settings of a node's machine.
	AskSettings func(ctx context.Context, node string) ([]hostsettings.Setting, error)
	// AskHost returns the findings of `ktsn node check` on a node.
	AskHost func(ctx context.Context, node string) ([]hostcheck.Finding, error)
	// AskGuest runs ktsn-guest in a container of a pod, and returns its output, also if it fails.
	AskGuest func(ctx context.Context, pod *corev1.Pod, container string, arguments ...string) (string, error)

	findings []Finding
}

// New returns a Doctor for a cluster.
func New(c *clusterreader.Cluster) *Doctor {
	return &Doctor{
		Cluster: c,
		AskKtsnd: func(ctx context.Context, node string) (*State, error) {
			state := &State{}
			return state, ask(ctx, c, node, state, "status")
		},
		AskCapture: func(ctx context.Context, node string) (all []capture.At, err error) {
			err = ask(ctx, c, node, &all, "node", "capture")
			return all, err
		},
		AskSettings: func(ctx context.Context, node string) (all []hostsettings.Setting, err error) {
			err = ask(ctx, c, node, &all, "node", "settings")
			return all, err
		},
		AskHost: func(ctx context.Context, node string) (all []hostcheck.Finding, err error) {
			err = ask(ctx, c, node, &all, "node", "check")
			return all, err
		},
		AskGuest: func(ctx context.Context, pod *corev1.Pod, container string, arguments ...string) (string, error) {
			var output bytes.Buffer
			err := c.Run(ctx, pod, container, &output, append([]string{guestProgram}, arguments...)...)
			return output.String(), err
		},
	}
}

// ask runs ktsn next to a node's ktsnd and decodes its output.
func ask(ctx context.Context, c *clusterreader.Cluster, node string, into any, command ...string) error {
	var output bytes.Buffer
	if err := c.Ktsn(ctx, node, &output, append(command, "--output", "json")...); err != nil {
		return err
	}
	if err := json.Unmarshal(output.Bytes(), into); err != nil {
		return fmt.Errorf("read the state of ktsnd on node %s: %w", node, err)
	}
	return nil
}

func (d *Doctor) report(level Level, about, mend, text string, arguments ...any) {
	if len(arguments) > 0 {
		text = fmt.Sprintf(text, arguments...)
	}
	d.findings = append(d.findings, Finding{Level: level, About: clean(about), Text: clean(text), Mend: clean(mend)})
}

func clean(text string) string { return strings.TrimSpace(strings.Map(printable, text)) }

// printable puts a finding on one line, and removes terminal control characters that a pod's owner wrote into annotations and messages.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

func (d *Doctor) ok(about, text string, arguments ...any) {
	d.report(OK, about, "", text, arguments...)
}

// unreadable adds a note about something that could not be read.
func (d *Doctor) unreadable(about string, err error) {
	mend := ""
	if apierrors.IsForbidden(err) {
		mend = "retry with more rights"
	}
	d.report(Note, about, mend, "cannot be read: %s", oneLine(err))
}

// take returns the findings and removes them.
func (d *Doctor) take() []Finding {
	findings := d.findings
	d.findings = nil
	return findings
}

// Faults returns the number of faults.
func Faults(findings []Finding) (count int) {
	for _, finding := range findings {
		if finding.Level == Bad {
			count++
		}
	}
	return count
}

// oneLine returns the text of an error on one line; of an answer of the API server only its message.
func oneLine(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return errortext.OneLine(err)
}
