// SPDX-License-Identifier: Apache-2.0

package linkledger

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// clientBytes is the length of the hash that identifies a client. Names would be too long for thousands of them in one object.
const clientBytes = 9

// ClientOf identifies a pod of a cluster as a client of a service. A recreated pod of the same name is the same client.
func ClientOf(serviceNamespace, service, cluster, namespace, pod string) string {
	hash := sha256.Sum256([]byte(strings.Join([]string{serviceNamespace, service, cluster, namespace, pod}, "\x00")))
	return base64.RawURLEncoding.EncodeToString(hash[:clientBytes])
}

// ClientOfLink identifies the client of a link.
func ClientOfLink(link *v1alpha1.TSNLink) string {
	client := &link.Spec.Client
	return ClientOf(link.Namespace, link.Spec.Service, client.Cluster, client.Namespace, client.Pod)
}

// Clients returns the clients of recently deleted links.
func (l *Ledger) Clients() map[string]bool {
	clients := map[string]bool{}
	for _, release := range l.released {
		if release.Client != "" {
			clients[release.Client] = true
		}
	}
	return clients
}
