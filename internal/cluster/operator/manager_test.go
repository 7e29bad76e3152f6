// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestLeaseIdentity(t *testing.T) {
	nowhere := &rest.Config{Host: "https://192.0.2.1"}
	for range 2 {
		lease, err := newLease(&Options{Namespace: "system", Identity: "ktsn-operator-1"}, nowhere)
		if err != nil || lease.Identity() != "ktsn-operator-1" || lease.Describe() != "system/"+leaseName {
			t.Errorf("the lease is %+v, %v", lease, err)
		}
	}
	if lease, err := newLease(&Options{Namespace: "system"}, nowhere); lease != nil || err != nil {
		t.Errorf("without a name it is %+v, %v, and controller-runtime's is wanted", lease, err)
	}
}
