// SPDX-License-Identifier: Apache-2.0

package linkledger

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// clientBytes of a hash are enough to tell clients apart that had links at one time. Names are too long for so many in one object.
const clientBytes = 9

// ClientOf stands for the pod of a name, in a cluster, as a client of a service. A pod that takes the place of another one of its name is the same
// client.
func ClientOf(serviceNamespace, service, cluster, namespace, pod string) string {
	hash := sha256.Sum256([]byte(strings.Join([]string{serviceNamespace, service, cluster, namespace, pod}, "\x00")))
	return base64.RawURLEncoding.EncodeToString(hash[:clientBytes])
}

// ClientOfLink is that of a link's client.
func ClientOfLink(link *v1alpha1.TSNLink) string {
	client := &link.Spec.Client
	return ClientOf(link.Namespace, link.Spec.Service, client.Cluster, client.Namespace, client.Pod)
}

// Clients are those whose links have gone lately.
func (l *Ledger) Clients() map[string]bool {
	clients := map[string]bool{}
	for _, release := range l.released {
		if release.Client != "" {
			clients[release.Client] = true
		}
	}
	return clients
}
