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
	"github.com/kubernetsn/kubernetsn/internal/node/hostsettings"
	"github.com/kubernetsn/kubernetsn/internal/node/machine"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// Level says how bad it is.
type Level string

// Levels.
const (
	OK   Level = "ok"
	Note Level = "note" // may be as it should be
	Bad  Level = "bad"  // timed traffic does not work
)

// Finding is one thing that was looked at.
type Finding struct {
	Level Level  `json:"level"`
	About string `json:"about"`
	Text  string `json:"text"`
	// Mend is what to do; empty where nothing is to be done.
	Mend string `json:"mend,omitempty"`
}

// State is what `ktsn status -o json` says of a ktsnd.
type State struct {
	Status    *control.Status            `json:"status"`
	Instance  *control.Instance          `json:"instance"`
	Endpoints []control.AttachedEndpoint `json:"endpoints"`
	Pods      []control.Pod              `json:"pods"`
	Flows     []control.Flow             `json:"flows"`
	Clocks    []control.NetworkClock     `json:"network-clocks"`
	Devices   []machine.Machine          `json:"devices"`
}

// Doctor looks.
type Doctor struct {
	Cluster *clusterreader.Cluster
	// AskKtsnd asks the ktsnd of a node.
	AskKtsnd func(ctx context.Context, node string) (*State, error)
	// AskCapture asks what was captured at the interfaces of a node's pods.
	AskCapture func(ctx context.Context, node string) ([]capture.At, error)
	// AskSettings asks how a node's machine is set up.
	AskSettings func(ctx context.Context, node string) ([]hostsettings.Setting, error)
	// AskGuest runs ktsn-guest in a container of a pod, and returns what it says, also if it fails.
	AskGuest func(ctx context.Context, pod *corev1.Pod, container string, arguments ...string) (string, error)

	found []Finding
}

// New looks into a cluster.
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
		AskGuest: func(ctx context.Context, pod *corev1.Pod, container string, arguments ...string) (string, error) {
			var output bytes.Buffer
			err := c.Run(ctx, pod, container, &output, append([]string{guestProgram}, arguments...)...)
			return output.String(), err
		},
	}
}

// ask runs ktsn beside a node's ktsnd and reads what it says.
func ask(ctx context.Context, c *clusterreader.Cluster, node string, into any, command ...string) error {
	var output bytes.Buffer
	if err := c.Ktsn(ctx, node, &output, append(command, "--output", "json")...); err != nil {
		return err
	}
	if err := json.Unmarshal(output.Bytes(), into); err != nil {
		return fmt.Errorf("read what ktsnd on node %s says of itself: %w", node, err)
	}
	return nil
}

func (d *Doctor) say(level Level, about, mend, text string, arguments ...any) {
	if len(arguments) > 0 {
		text = fmt.Sprintf(text, arguments...)
	}
	d.found = append(d.found, Finding{Level: level, About: clean(about), Text: clean(text), Mend: clean(mend)})
}

func clean(text string) string { return strings.TrimSpace(strings.Map(printable, text)) }

// printable keeps a finding on one line, and a terminal from what the pod's owner wrote into annotations and messages.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

func (d *Doctor) ok(about, text string, arguments ...any) { d.say(OK, about, "", text, arguments...) }

// unseen says what could not be looked at, which is no fault of what is looked at.
func (d *Doctor) unseen(about string, err error) {
	mend := ""
	if apierrors.IsForbidden(err) {
		mend = "ask with more rights"
	}
	d.say(Note, about, mend, "could not be looked at: %s", oneLine(err))
}

// take ends a look.
func (d *Doctor) take() []Finding {
	findings := d.found
	d.found = nil
	return findings
}

// Faults counts what is bad.
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
