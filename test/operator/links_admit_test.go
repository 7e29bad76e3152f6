// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// linkOfHub is one from a pod of the cluster to one elsewhere.
func linkOfHub(namespace, service, uid, node string) *v1alpha1.TSNLink {
	return &v1alpha1.TSNLink{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service + "-0123456789-hub", Labels: map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}},
		Spec: v1alpha1.TSNLinkSpec{Service: service, VNI: v1alpha1.LastLinkVNI,
			Client: v1alpha1.LinkEnd{Namespace: namespace, Pod: "client", UID: uid, Node: node, NodeAddress: "192.0.2.1", Interface: "up", Addresses: []string{"10.214.0.0/31"}},
			Endpoint: v1alpha1.LinkEnd{Namespace: namespace, Pod: "far", UID: "far", Cluster: "west", Node: "far", NodeAddress: "192.0.2.2", Interface: "down5000",
				Addresses: []string{"10.214.0.1/31"}}},
	}
}

// awaitAdmitted waits until condition Admitted of a link has a status and a text in its message.
func awaitAdmitted(ctx context.Context, t *testing.T, link *v1alpha1.TSNLink, status metav1.ConditionStatus, text string) {
	t.Helper()
	await(ctx, t, link, func() error {
		got := meta.FindStatusCondition(link.Status.Conditions, v1alpha1.ConditionAdmitted)
		if got == nil || got.Status != status || got.ObservedGeneration != link.Generation || !strings.Contains(got.Message, text) {
			return fmt.Errorf("Admitted is %+v, want %s, %q", got, status, text)
		}
		return nil
	})
}

func TestHubLinkAdmission(t *testing.T) {
	ctx := needOperator(t)
	lab := newLinkLab(ctx, t, "links-admitted", newService("s", "10.214.0.0/24"))
	from := lab.pod(t, "client", 0, clientOf("s"), false)
	link := linkOfHub(lab.namespace, "s", string(from.UID), from.Spec.NodeName)
	create(ctx, t, link)
	admitted := func(status metav1.ConditionStatus, text string) {
		t.Helper()
		awaitAdmitted(ctx, t, link, status, text)
	}
	admitted(metav1.ConditionTrue, "")
	routes := func(list string) {
		t.Helper()
		mustPatch(ctx, t, link, `{"spec":{"client":{"routes":`+list+`}}}`)
	}
	routes(`["10.0.0.0/8"]`)
	admitted(metav1.ConditionFalse, "route 10.0.0.0/8 is neither in a range of TSNService links-admitted/s nor in its spec.routes")
	routes("null")
	admitted(metav1.ConditionTrue, "")
	mustPatch(ctx, t, from, `{"metadata":{"labels":{"client.kubernetsn.io/s":null}}}`)
	admitted(metav1.ConditionFalse, "the client, pod links-admitted/client: its labels do not ask TSNService links-admitted/s for interface up")
}

func TestOnlyOperatorCreatesItsLinks(t *testing.T) {
	ctx := needPolicy(t)
	const itsAlone = "only ktsn-operator may create and change TSNLinks"
	link := linkOfHub("default", "nothing", "nobody", "nowhere")
	create(ctx, t, link)
	pretended := link.DeepCopy()
	pretended.Name, pretended.ResourceVersion, pretended.UID = "nothing-pretended", "", ""
	pretended.Labels[v1alpha1.LinkMakerLabel] = v1alpha1.MakerOperator
	checkRefusal(t, "", admin.Create(ctx, pretended, client.DryRunAll), itsAlone)
	owned := pretended.DeepCopy()
	owned.Name = "nothing-own"
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TSNService", Name: "nothing", UID: "x"}}
	operator := operatorWithAllRights(t)
	must(t, operator.Create(ctx, owned))
	// The operator that runs removes the link soon, as one of no service.
	t.Cleanup(func() { _ = operator.Delete(context.WithoutCancel(ctx), owned) })
	asked := 0
	for _, labels := range []string{`null`, `{"kubernetsn.io/link-maker":null}`, `{"kubernetsn.io/link-maker":"federator"}`} {
		patch := mergePatch(`{"metadata":{"labels":` + labels + `}}`)
		if err := admin.Patch(ctx, owned.DeepCopy(), patch, client.DryRunAll); apierrors.IsNotFound(err) {
			continue
		} else if err := refusalError(err, itsAlone); err != nil {
			t.Errorf("labels %s for a link of the operator: %v", labels, err)
		}
		asked++
	}
	if asked == 0 {
		t.Error("the link was gone before anything was asked of it")
	}
	label := []byte(`{"metadata":{"labels":{"kubernetsn.io/link-maker":"operator"}}}`)
	checkRefusal(t, "", admin.Patch(ctx, link.DeepCopy(), client.RawPatch(types.MergePatchType, label), client.DryRunAll), itsAlone)
}

// TestOnlyOperatorAcceptsAddresses has the operator accept the range and a route of a service, but not a route to a node. The client of this test
// may do all: a policy refuses that it writes which are accepted.
func TestOnlyOperatorAcceptsAddresses(t *testing.T) {
	ctx := needPolicy(t)
	service := newService("s", "10.186.0.0/24")
	node := newNode("links-accepted-has")
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.187.1.5"}}
	create(ctx, t, node)
	service.Spec.Routes = []v1alpha1.ServiceRoute{{To: "10.187.0.0/24"}, {To: "10.187.1.0/24"}}
	lab := newLinkLab(ctx, t, "links-accepted", service)
	want := []string{"10.186.0.0/24", "10.187.0.0/24"}
	lab.service(t, service, func(status *v1alpha1.TSNServiceStatus, _ *metav1.Condition) bool {
		return slices.Equal(status.Accepted, want)
	})
	for text, sentence := range map[string]string{
		`{"accepted":["10.187.1.0/24"]}`: "only ktsn-operator may write status.accepted of a TSNService",
		`{"accepted":null}`:              "only ktsn-operator may write status.accepted of a TSNService",
		`{"linked":1}`:                   "",
	} {
		patch := mergePatch(`{"status":` + text + `}`)
		checkRefusal(t, text, admin.Status().Patch(ctx, service.DeepCopy(), patch, client.DryRunAll), sentence)
	}
}

// The clients of this test may do all: what is refused, a policy refuses.
func TestOnlyOperatorAdmitsLinks(t *testing.T) {
	ctx := needPolicy(t)
	link := linkOfHub("default", "nothing-to-admit", "nobody", "nowhere")
	create(ctx, t, link)
	agent := agentOf(t, "nowhere")
	operator := operatorWithAllRights(t)
	conditions := func(admitted string) client.Patch {
		const condition = `{"type":%q,"status":%q,"reason":"Test","message":"","lastTransitionTime":"2026-11-28T08:00:00Z"}`
		text := fmt.Sprintf(condition, v1alpha1.ConditionEndpointPlugged, "True")
		if admitted != "" {
			text += "," + fmt.Sprintf(condition, v1alpha1.ConditionAdmitted, admitted)
		}
		return mergePatch(`{"status":{"conditions":[` + text + `]}}`)
	}
	const operators = "only ktsn-operator may write the condition Admitted of a TSNLink"
	checkRefusal(t, "somebody who brings it", admin.Status().Patch(ctx, link.DeepCopy(), conditions("True"), client.DryRunAll), operators)
	// Two policies refuse it, and either may be named.
	checkRefusal(t, "an agent", agent.Status().Patch(ctx, link.DeepCopy(), conditions("True"), client.DryRunAll), "denied request")
	checkRefusal(t, "another condition", admin.Status().Patch(ctx, link.DeepCopy(), conditions(""), client.DryRunAll), "")
	if err := operator.Status().Patch(ctx, link.DeepCopy(), conditions("False")); err != nil {
		t.Fatalf("the operator: %v", err)
	}
	for what, test := range map[string]struct{ admitted, sentence string }{
		"another word": {"True", operators}, "a removed one": {"", operators}, "the same word": {"False", ""},
	} {
		checkRefusal(t, what, admin.Status().Patch(ctx, link.DeepCopy(), conditions(test.admitted), client.DryRunAll), test.sentence)
	}
}
