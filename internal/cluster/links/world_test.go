// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a cluster that does what plans say.
type world struct {
	Input
	created int
}

func newWorld(nodes int) *world {
	w := &world{Input: Input{Nodes: map[string]Node{}, Namespaces: map[string]map[string]string{"ns": nil}, Failed: Failures{}, Now: start}}
	for i := range nodes {
		w.Nodes[fmt.Sprintf("node%d", i)] = Node{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), Ready: true, MTU: 1450}
	}
	return w
}

func newService(name, cidr string) v1alpha1.TSNService {
	return v1alpha1.TSNService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.Time{Time: start}},
		Spec:       v1alpha1.TSNServiceSpec{IPv4: &v1alpha1.LinkRange{LinkCIDR: cidr}},
	}
}

func (w *world) add(node string, labels map[string]string) *Pod {
	w.created++
	w.Pods = append(w.Pods, Pod{Namespace: "ns", Name: fmt.Sprintf("pod%d", w.created), UID: fmt.Sprintf("uid%d", w.created), Node: node, Labels: labels, Ready: true})
	return &w.Pods[len(w.Pods)-1]
}

func (w *world) client(node, service string) *Pod {
	return w.add(node, map[string]string{v1alpha1.ClientLabelPrefix + service: "up"})
}

func (w *world) endpoint(node, service string) *Pod {
	return w.add(node, map[string]string{v1alpha1.EndpointLabelPrefix + service: "down"})
}

func (w *world) middle(node, service, element string) *Pod {
	return w.add(node, map[string]string{v1alpha1.ClientLabelPrefix + service: "on", v1alpha1.EndpointLabelPrefix + service: "from", "element": element})
}

func element(name string) v1alpha1.ChainElement {
	return v1alpha1.ChainElement{Name: name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"element": name}}, Forward: []string{"IPv4"}}
}

// pod finds one by its UID.
func (w *world) pod(uid string) *Pod {
	for i := range w.Pods {
		if w.Pods[i].UID == uid {
			return &w.Pods[i]
		}
	}
	return nil
}

func (w *world) removePod(uid string) {
	w.Pods = slices.DeleteFunc(w.Pods, func(pod Pod) bool { return pod.UID == uid })
}

// round makes a plan and carries it out. Links are up at once.
func (w *world) round() *Result {
	plan := Plan(&w.Input)
	w.carryOut(plan)
	return plan
}

func (w *world) carryOut(plan *Result) {
	w.Links = slices.Clone(w.Links) // the plan points into what it was given
	for _, removal := range plan.Delete {
		w.Released = append(w.Released, *removal.Link)
		w.Links = slices.DeleteFunc(w.Links, func(link v1alpha1.TSNLink) bool { return link.Name == removal.Link.Name })
	}
	for _, link := range plan.Make {
		w.Links = append(w.Links, link)
		w.setUp(&w.Links[len(w.Links)-1], true)
	}
	for _, changed := range plan.Change {
		for i := range w.Links {
			if w.Links[i].Name == changed.Name {
				w.Links[i].Spec = changed.Spec
			}
		}
	}
	w.Failed = plan.Failed
}

// setUp is what the agents say.
func (w *world) setUp(link *v1alpha1.TSNLink, up bool) {
	status := metav1.ConditionFalse
	if up {
		status = metav1.ConditionTrue
	}
	at := metav1.Time{Time: w.Now}
	link.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionClientPlugged, Status: metav1.ConditionTrue, LastTransitionTime: at},
		{Type: v1alpha1.ConditionUp, Status: status, LastTransitionTime: at},
	}
}

// settle makes plans until nothing more is to be done, and fails if that takes long.
func (w *world) settle(t *testing.T) *Result {
	t.Helper()
	for range 12 {
		plan := w.round()
		if len(plan.Make)+len(plan.Change)+len(plan.Delete) == 0 {
			return plan
		}
	}
	t.Fatal("plans do not come to an end")
	return nil
}

// linkOf is that of a pod for a hop.
func (w *world) linkOf(pod *Pod, hop int32) *v1alpha1.TSNLink {
	for i := range w.Links {
		if w.Links[i].Spec.Client.UID == pod.UID && w.Links[i].Spec.Hop == hop {
			return &w.Links[i]
		}
	}
	return nil
}
