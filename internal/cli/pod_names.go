// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// namesOf returns the pods' names by identity.
func namesOf(pods []control.Pod) map[string]string {
	names := map[string]string{}
	for _, pod := range pods {
		names[pod.Identity] = pod.Name
	}
	return names
}

// podNames formats pods in tables: by name if they have one, in wide tables followed by the identity.
type podNames struct {
	byIdentity map[string]string
	wide       bool
}

func (n podNames) name(identity string) string { return cmp.Or(n.byIdentity[identity], identity) }

func (n podNames) cells(identity string) string { return n.head(n.name(identity), identity) }

// head returns the title of one or both columns.
func (n podNames) head(name, identity string) string {
	if n.wide {
		return name + "\t" + identity
	}
	return name
}

// identityOf returns the identity of a pod from its name or identity. Unknown text without a slash is returned unchanged.
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
		return "", fmt.Errorf("%s: several pods have or had this name; give one of the identities %s", wanted, strings.Join(existing, ", "))
	case strings.Contains(wanted, "/"):
		return "", fmt.Errorf("%s: this node has no pod with that name; `ktsn status` lists them", wanted)
	}
	return wanted, nil
}

// flowPods caches the pods of flows, and reads unknown ones from ktsnd.
type flowPods struct {
	client *control.Client
	// identities has the identity of each flow's pod, empty for a flow that had ended before it was read.
	identities map[uint64]string
	names      map[string]string
}

// learn reads the flows of messages, if there are new ones.
func (f *flowPods) learn(ctx context.Context, messages []control.TracedMessage) error {
	unknown := false
	for _, message := range messages {
		if _, known := f.identities[message.Flow]; !known {
			f.identities[message.Flow], unknown = "", true
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
		f.identities[flow.Number] = flow.Identity
	}
	f.names = namesOf(pods)
	return nil
}
