// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

func TestOfANetworkThatIsGoneNothingIsKept(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	left := &v1alpha1.TSNPeers{
		ObjectMeta: metav1.ObjectMeta{
			Name: "gone-0", Labels: map[string]string{v1alpha1.NetworkLabel: "gone", managedBy: string(fieldOwner)},
		},
		Spec: v1alpha1.TSNPeersSpec{Network: "gone", Nodes: []v1alpha1.PeerNode{{Name: "a", Address: "192.0.2.1", IPv4: "10.42.0.0/24"}}},
	}
	r := &Peers{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(left).Build(), pace: newPace(time.Now)}
	r.pace.done("gone")
	if err := r.look(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	var list v1alpha1.TSNPeersList
	if err := r.Client.List(t.Context(), &list); err != nil || len(list.Items) > 0 || len(r.pace.last) > 0 {
		t.Errorf("there are %d TSNPeers, %v, and times of %v", len(list.Items), err, r.pace.last)
	}
}
