// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
)

// relays reads how those of the node's pods are, by the pods' UIDs.
func (w *Watcher) relays() map[string][]relay.Status {
	if w.Relays == nil {
		return nil
	}
	of := map[string][]relay.Status{}
	for _, status := range w.Relays() {
		of[status.Identity] = append(of[status.Identity], status)
	}
	return of
}

// troubled says of which interfaces captured frames do not go through ktsnd.
func troubled(relays []relay.Status) []finding {
	var findings []finding
	for i := range relays {
		reason, sentence := relays[i].Trouble()
		if reason == "" {
			continue
		}
		event := ReasonRelay
		if reason == v1alpha1.ReasonKernelPath {
			event = ReasonKernelPath
		}
		findings = append(findings, finding{event, relays[i].Interface + reason, strings.ToUpper(sentence[:1]) + sentence[1:]})
	}
	return findings
}
