// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli"
)

const (
	notAllowed  = "is forbidden: User"
	onlyItsOwn  = "may change and remove in this cluster only what it has made there"
	noLevel     = "may not say which level of Pod Security"
	noOtherMaps = "the hub may write kubernetsn-hub only"
	// agentNamespace is that of karmada-agent.
	agentNamespace = "karmada-system"
	plant          = "hub-plant"
)

// byKarmada labels what Karmada makes in a member.
var byKarmada = map[string]string{"karmada.io/managed": "true"}

// theHub is a client with what `ktsn fed rights` gives karmada-agent, which does whatever a hub says.
func theHub(ctx context.Context, t *testing.T) client.Client {
	t.Helper()
	var printed, output bytes.Buffer
	if cli.Main(ctx, []string{"fed", "rights", "--workload-namespace", plant}, &printed, &output) != 0 {
		t.Fatal(output.String())
	}
	create(ctx, t, newNamespace(agentNamespace, nil))
	for part := range bytes.SplitSeq(printed.Bytes(), []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(part, object); err != nil {
			t.Fatalf("%v in %s", err, part)
		}
		create(ctx, t, object)
	}
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + agentNamespace + ":karmada-agent-sa"}
	created, err := client.New(as, client.Options{Scheme: scheme})
	must(t, err)
	eventually(ctx, t, func() error {
		// The namespace default is not the hub's.
		return refusalError(created.Update(ctx, current(ctx, t, newNamespace("default", nil)), client.DryRunAll), onlyItsOwn)
	})
	return created
}

// current is an object as the API server has it.
func current[T client.Object](ctx context.Context, t *testing.T, object T) T {
	t.Helper()
	must(t, get(ctx, object))
	return object
}

func named(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

func hubNetwork(name string, vni int32, cidr string) *v1alpha1.TSNNetwork {
	network := newNetwork(name, vni, cidr)
	network.Labels = byKarmada
	return network
}

func levelled(name string) *corev1.Namespace {
	return newNamespace(name, map[string]string{"karmada.io/managed": "true", "pod-security.kubernetes.io/enforce": "privileged"})
}

func TestStolenHubIsBounded(t *testing.T) {
	ctx := needServer(t)
	if err := admin.Create(ctx, newNamespace(system, nil)); err != nil && !strings.Contains(err.Error(), "already exists") {
		t.Fatal(err)
	}
	hub := theHub(ctx, t)
	foreignNetwork, created := newNetwork("hub-own", 244, "10.244.0.0/24"), hubNetwork("hub-made", 245, "10.245.0.0/24")
	config, key := &corev1.ConfigMap{ObjectMeta: named(plant, "own", nil)}, &corev1.Secret{ObjectMeta: named(system, "hub-key", nil)}
	beside := &corev1.Secret{ObjectMeta: named(plant, "beside", nil)}
	certificate := &corev1.Secret{ObjectMeta: named(agentNamespace, "karmada-kubeconfig", nil)}
	foreign := &v1alpha1.TSNPeers{ObjectMeta: named("", "hub-foreign", nil), Spec: v1alpha1.TSNPeersSpec{Network: "hub-made", Cluster: "west", Nodes: []v1alpha1.PeerNode{}}}
	mine := newNamespace("hub-mine", byKarmada)
	create(ctx, t, foreignNetwork, config, key, beside, certificate, foreign)
	for name, err := range map[string]error{
		"a network":   hub.Create(ctx, created),
		"a namespace": hub.Create(ctx, mine),
	} {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	t.Cleanup(func() { remove(context.WithoutCancel(ctx), t, created) })
	privileged := plainPod("privileged", plant)
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	daemons := &appsv1.DaemonSet{ObjectMeta: named(system, "hub", nil)}
	relabelled := mine.DeepCopy()
	relabelled.Labels = levelled("").Labels
	unlabelled := current(ctx, t, newNamespace(plant, nil))
	unlabelled.Labels = nil
	dry := client.DryRunAll
	// An operator that runs changes networks meanwhile.
	change := func(network *v1alpha1.TSNNetwork) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := get(ctx, network); err != nil {
				return err
			}
			network.Spec.MTU = 1400
			return hub.Update(ctx, network, dry)
		})
	}
	for name, test := range map[string]struct {
		err      error
		sentence string
	}{
		"reads Secrets":                           {hub.List(ctx, &corev1.SecretList{}), notAllowed},
		"reads a key":                             {hub.Get(ctx, client.ObjectKeyFromObject(key), key), notAllowed},
		"writes a Secret of a workload":           {hub.Create(ctx, &corev1.Secret{ObjectMeta: named(plant, "s", nil)}, dry), notAllowed},
		"reads a Secret beside its workload":      {hub.Get(ctx, client.ObjectKeyFromObject(beside), beside), ""},
		"reads its certificate":                   {hub.Get(ctx, client.ObjectKeyFromObject(certificate), certificate), ""},
		"renews its certificate":                  {hub.Update(ctx, certificate, dry), ""},
		"starts pods of the system":               {hub.Create(ctx, daemons, dry), notAllowed},
		"starts a pod":                            {hub.Create(ctx, plainPod("plain", plant), dry), ""},
		"starts a privileged pod":                 {hub.Create(ctx, privileged, dry), "violates PodSecurity"},
		"starts a pod elsewhere":                  {hub.Create(ctx, plainPod("plain", "default"), dry), notAllowed},
		"gives itself rights":                     {hub.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: named(plant, "more", nil)}, dry), notAllowed},
		"changes a network of its own":            {change(created.DeepCopy()), ""},
		"changes a network of the cluster":        {change(foreignNetwork.DeepCopy()), onlyItsOwn},
		"removes a network of the cluster":        {hub.Delete(ctx, foreignNetwork, dry), onlyItsOwn},
		"says how a network is":                   {hub.Status().Update(ctx, created, dry), notAllowed},
		"gives a node a subnet":                   {hub.Create(ctx, &v1alpha1.TSNNode{ObjectMeta: named("", "hub-node", nil)}, dry), notAllowed},
		"changes peers of an earlier membership":  {hub.Update(ctx, foreign, dry), ""},
		"takes a namespace":                       {hub.Update(ctx, current(ctx, t, newNamespace(system, nil)), dry), onlyItsOwn},
		"removes a namespace":                     {hub.Delete(ctx, newNamespace(system, nil), dry), onlyItsOwn},
		"removes a namespace of its own":          {hub.Delete(ctx, mine, dry), ""},
		"makes a namespace with a level":          {hub.Create(ctx, levelled("hub-level"), dry), noLevel},
		"gives its namespace a level":             {hub.Update(ctx, relabelled, dry), noLevel},
		"takes the level of a namespace":          {hub.Update(ctx, unlabelled, dry), onlyItsOwn},
		"beats":                                   {hub.Create(ctx, &corev1.ConfigMap{ObjectMeta: named(system, v1alpha1.HubHeartbeat, byKarmada)}, dry), ""},
		"pins keys":                               {hub.Create(ctx, &corev1.ConfigMap{ObjectMeta: named(system, "kubernetsn-cluster-keys", byKarmada)}, dry), noOtherMaps},
		"gives a workload a ConfigMap":            {hub.Create(ctx, &corev1.ConfigMap{ObjectMeta: named(plant, "new", byKarmada)}, dry), ""},
		"changes a ConfigMap beside its workload": {hub.Update(ctx, config, dry), onlyItsOwn},
	} {
		checkRefusal(t, "a hub "+name, test.err, test.sentence)
	}
	mayNot(ctx, t, hub)
}

// mayNot asks for rights that no request of karmada-agent shows.
func mayNot(ctx context.Context, t *testing.T, hub client.Client) {
	t.Helper()
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Verb: "impersonate", Resource: "users", Name: "anna"}, {Verb: "impersonate", Resource: "groups", Name: "system:masters"},
		{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: plant}, {Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: plant},
		{Verb: "delete", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings", Name: "karmada-agent"},
		{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "cluster-admin"}, {Verb: "patch", Resource: "nodes"},
		{Verb: "update", Group: "kubernetsn.io", Resource: "tsnnodes"}, {Verb: "update", Group: "kubernetsn.io", Resource: "tsnlinks", Subresource: "status"},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
		if err := hub.Create(ctx, review); err != nil || review.Status.Allowed {
			t.Errorf("a hub may %+v: %v", attributes, err)
		}
	}
}
