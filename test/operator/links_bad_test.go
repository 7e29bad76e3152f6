// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// warnings are what an API server warns of.
type warnings struct {
	mu     sync.Mutex
	output []string
}

// HandleWarningHeader remembers one.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.output = append(w.output, text)
}

func TestMissingService(t *testing.T) {
	ctx := needOperator(t)
	lab := newLinkLab(ctx, t, "links-missing")
	warned := &warnings{}
	warning := rest.CopyConfig(config)
	warning.WarningHandler = warned
	user, err := client.New(warning, client.Options{Scheme: scheme})
	must(t, err)
	pod := plainPod("client", lab.namespace)
	pod.Labels, pod.Spec.NodeName = clientOf("later"), lab.nodes[0].Name
	must(t, user.Create(ctx, pod))
	t.Cleanup(func() { remove(context.WithoutCancel(ctx), t, pod) })
	const want = "label client.kubernetsn.io/later: there is no TSNService later in namespace links-missing; the pod waits for its link until it is created"
	if !slices.ContainsFunc(warned.output, func(text string) bool { return strings.Contains(text, want) }) {
		t.Errorf("warned of %q", warned.output)
	}
	lab.awaitMessage(t, pod, v1alpha1.ReasonServiceMissing, "there is no TSNService links-missing/later; the pod gets its links when it is created")
	service := newService("later", "10.182.0.0/24")
	service.Namespace = lab.namespace
	create(ctx, t, service)
	lab.awaitLink(t, pod, lab.pod(t, "endpoint", 1, endpointOf("later"), true))
}

func TestInvalidLinkPods(t *testing.T) {
	ctx := needOperator(t)
	looped, closed := newService("looped", "10.183.0.0/24"), newService("closed", "10.183.1.0/24")
	looped.Spec.Chain = []v1alpha1.ChainElement{{Name: "a", Selector: *selector("app", "filter")}, {Name: "b", Selector: *selector("app", "filter")}}
	closed.Spec.ClientNamespaces = selector("site", "a")
	lab := newLinkLab(ctx, t, "links-refused", looped, closed)
	create(ctx, t, newNamespace("links-refused-b", map[string]string{"site": "b"}))
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprintf("%ss%d", v1alpha1.ClientLabelPrefix, i)] = fmt.Sprintf("i%d", i)
	}
	for name, test := range map[string]struct {
		namespace, sentence string
		labels              map[string]string
	}{
		"of a namespace that may not": {"links-refused-b", "pods of namespace links-refused-b may not be clients of TSNService links-refused/closed: its spec.clientNamespaces (site=a)",
			map[string]string{v1alpha1.ClientLabelPrefix + "closed." + lab.namespace: "up"}},
		"in a chain twice": {lab.namespace, "selected by several elements of spec.chain of TSNService links-refused/looped (a, b), so that the chain would lead through it twice",
			map[string]string{"app": "filter", v1alpha1.ClientLabelPrefix + "looped": "up", v1alpha1.EndpointLabelPrefix + "looped": "down"}},
		"to itself": {lab.namespace, "has no spec.chain; remove one of the two labels",
			map[string]string{v1alpha1.ClientLabelPrefix + "closed": "up", v1alpha1.EndpointLabelPrefix + "closed": "down"}},
		"twice to one service": {lab.namespace, "both request a link of TSNService links-refused/closed, and a pod gets one link of a service; remove one of them",
			map[string]string{v1alpha1.ClientLabelPrefix + "closed": "up", v1alpha1.ClientLabelPrefix + "closed." + lab.namespace: "other"}},
		"with an interface that it has": {lab.namespace, "the pod already has an interface eth0 (of the primary network); use another name",
			map[string]string{v1alpha1.ClientLabelPrefix + "closed": "eth0"}},
		"of too many services": {lab.namespace, "the pod is a client of 17 services by labels client.kubernetsn.io/SERVICE; it may be one of 16", many},
	} {
		t.Run(name, func(t *testing.T) {
			pod := plainPod("refused", test.namespace)
			pod.Labels = test.labels
			checkRefusal(t, "", admin.Create(ctx, pod, client.DryRunAll), test.sentence)
		})
	}
}

// TestLoopAndLimitFindings is about the condition of a service, and Events of its clients.
func TestLoopAndLimitFindings(t *testing.T) {
	ctx := needOperator(t)
	x, y, limited, few := newService("x", "10.184.0.0/24"), newService("y", "10.184.1.0/24"), newService("one", "10.184.2.0/24"), newService("few", "10.184.3.0/30")
	limited.Spec.Limits = &v1alpha1.LinkLimits{LinksPerEndpoint: 1}
	lab := newLinkLab(ctx, t, "links-limits", x, y, limited, few)
	for _, services := range [][2]string{{"x", "y"}, {"y", "x"}} {
		lab.pod(t, "in-"+services[0], 0, map[string]string{v1alpha1.ClientLabelPrefix + services[0]: "up", v1alpha1.EndpointLabelPrefix + services[1]: "down"}, false)
	}
	const round = "services wait for each other: links-limits/x -> links-limits/y -> links-limits/x"
	lab.service(t, x, hasReason(v1alpha1.ReasonChainLoop), round, "Remove a label client.kubernetsn.io/ from the pods of one")
	for service, want := range map[*v1alpha1.TSNService]struct {
		clients      int
		reason, text string
	}{
		limited: {2, v1alpha1.ReasonLimitReached, "each pod that is an endpoint has 1 links already (spec.limits.linksPerEndpoint); raise the limit, or start more such pods"},
		few:     {3, v1alpha1.ReasonRangeUsedUp, "no addresses of 10.184.3.0/30 are left for another link. Create another TSNService with a larger range"},
	} {
		to := lab.pod(t, "to-"+service.Name, 1, endpointOf(service.Name), true)
		var last *corev1.Pod
		for number := range want.clients {
			if last != nil {
				lab.awaitLink(t, last, to)
			}
			last = lab.pod(t, fmt.Sprintf("of-%s-%d", service.Name, number), 0, clientOf(service.Name), false)
		}
		lab.awaitMessage(t, last, want.reason, want.text)
		lab.service(t, service, hasReason(want.reason), fmt.Sprintf("1 of %d clients have no link: %s", want.clients, want.text))
	}
}

func TestHubLinkWithClusterAddresses(t *testing.T) {
	ctx := needOperator(t)
	lab := newLinkLab(ctx, t, "links-taken", newService("s", "10.185.0.0/24"))
	local := lab.awaitLink(t, lab.pod(t, "first", 0, clientOf("s"), false), lab.pod(t, "endpoint", 1, endpointOf("s"), true))
	second := lab.pod(t, "client", 0, clientOf("s"), false)
	link := linkOfHub(lab.namespace, "s", string(second.UID), second.Spec.NodeName)
	link.Spec.Client.Addresses, link.Spec.Endpoint.Addresses = local.Spec.Client.Addresses, local.Spec.Endpoint.Addresses
	create(ctx, t, link)
	want := "TSNLink links-taken/" + local.Name + " has its address " + strings.Split(local.Spec.Client.Addresses[0], "/")[0]
	awaitAdmitted(ctx, t, link, metav1.ConditionFalse, want)
}

// TestOverlappingHubRanges has each of two hubs give the cluster a part of its own of one range: that the parts differ does not
// count, since the nodes of the other clusters have the rest of it.
func TestOverlappingHubRanges(t *testing.T) {
	ctx := needOperator(t)
	network := func(name string, vni int32, cidr, part string) *v1alpha1.TSNNetwork {
		created := newNetwork(name, vni, cidr)
		created.Spec.IPv4.Part = part
		return created
	}
	first, second := network("hub-one", 1181, "10.181.0.0/16", "10.181.0.0/20"), network("hub-two", 1182, "10.181.128.0/17", "10.181.240.0/20")
	create(ctx, t, first)
	time.Sleep(1100 * time.Millisecond) // ages have seconds
	service := newService("of-hub-two", "10.181.64.0/18")
	service.Spec.IPv4.Part = "10.181.64.0/24"
	lab := newLinkLab(ctx, t, "links-hubs", service)
	create(ctx, t, second)
	condition(ctx, t, second, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonOverlaps,
		"network hub-one is older and has addresses of the same range, 10.181.0.0/16")
	lab.service(t, service, hasReason(v1alpha1.ReasonOverlaps),
		"TSNNetwork hub-one has addresses of the same range, 10.181.0.0/16, and takes precedence over this service; create another TSNService with another range")
	condition(ctx, t, first, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsAsked)
}
