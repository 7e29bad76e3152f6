// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// namesOf is what people call pods, by identity.
func namesOf(pods []control.Pod) map[string]string {
	names := map[string]string{}
	for _, pod := range pods {
		names[pod.Identity] = pod.Name
	}
	return names
}

// podNames shows pods in tables: by name where they have one; in wide tables with the identity behind it.
type podNames struct {
	of   map[string]string
	wide bool
}

func (n podNames) called(identity string) string { return cmp.Or(n.of[identity], identity) }

func (n podNames) cells(identity string) string { return n.head(n.called(identity), identity) }

// head is the name of the column, or of both.
func (n podNames) head(name, identity string) string {
	if n.wide {
		return name + "\t" + identity
	}
	return name
}

// identityOf finds the pod that a user means by its name or identity. One that ktsnd does not know by name is returned as it is.
func identityOf(pods []control.Pod, wanted string) (string, error) {
	var existing []string
	for _, pod := range pods {
		if pod.Identity == wanted {
			return wanted, nil
		}
		if pod.Name == wanted {
			existing = append(existing, pod.Identity)
		}
	}
	switch {
	case len(existing) == 1:
		return existing[0], nil
	case len(existing) > 1:
		return "", fmt.Errorf("%s: several pods are or were called so; give one of the identities %s", wanted, strings.Join(existing, ", "))
	case strings.Contains(wanted, "/"):
		return "", fmt.Errorf("%s: no pod of that name is here; `ktsn status` lists them", wanted)
	}
	return wanted, nil
}

// flowPods tells whose flows are, and asks ktsnd for those that it does not know.
type flowPods struct {
	client *control.Client
	// of is the identity of each flow's pod, empty for one that had ended before it was asked for.
	of    map[uint64]string
	names map[string]string
}

// learn asks for the flows of messages, if there are new ones.
func (f *flowPods) learn(ctx context.Context, messages []control.TracedMessage) error {
	unknown := false
	for _, message := range messages {
		if _, known := f.of[message.Flow]; !known {
			f.of[message.Flow], unknown = "", true
		}
	}
	if !unknown {
		return nil
	}
	flows, err := f.client.Flows(ctx)
	if err != nil {
		return err
	}
	pods, err := f.client.Pods(ctx)
	if err != nil {
		return err
	}
	for _, flow := range flows {
		f.of[flow.Number] = flow.Identity
	}
	f.names = namesOf(pods)
	return nil
}
