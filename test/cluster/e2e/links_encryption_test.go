// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

const theSecretService = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNService
metadata: {name: secret, namespace: %[1]s}
spec:
  ipv4: {linkCIDR: 10.202.0.0/16}
  encryption: Required
`

// The messages of both ends' conditions.
const (
	saysEncrypted = "frames to the other node are encrypted"
	saysClear     = "frames to the other node leave in clear, as the service's encryption allows: "
	saysRefused   = "the service requires encryption, and "
)

// secret is a link of a service whose encryption setting takes all values, one after the other.
type secret struct {
	namespace    string
	client, view *corev1.Pod
	// lacks is what the machine's kernel lacks, nil if it can encrypt.
	lacks error
}

// encrypts changes a service's encryption setting while pods run. If the kernel has no ESP, there is no link while
// encryption is required, conditions and ktsn-wait name what each node lacks, and no message leaves another way. If it
// has ESP, the link is always up.
func (l *linked) encrypts(ctx context.Context, t *testing.T) {
	s := &secret{namespace: l.namespace, lacks: xfrm.Try()}
	t.Logf("what the kernel lacks: %v", s.lacks)
	applyText(ctx, t, fmt.Sprintf(theSecretService, l.namespace))
	s.view = start(ctx, t, l.namespace, labelled(waiting("secret-view", under.Nodes[1].Name), "endpoint.kubernetsn.io/secret=view"))[0]
	create(ctx, t, l.namespace, labelled(waiting("secret-client", under.Nodes[0].Name), "client.kubernetsn.io/secret=cam"))
	s.find(ctx, t)
	s.required(ctx, t)
	if s.lacks != nil {
		s.clientWaits(ctx, t)
	}
	s.ask(ctx, t, v1alpha1.EncryptionPreferred)
	s.client = waitReady(ctx, t, l.namespace, "secret-client")
	s.preferred(ctx, t)
	s.ask(ctx, t, v1alpha1.EncryptionNone)
	s.says(ctx, t, metav1.ConditionTrue, func(int) []string { return []string{""} })
	s.sends(ctx, t, true)
	s.ask(ctx, t, v1alpha1.EncryptionRequired)
	s.required(ctx, t)
	s.sends(ctx, t, false)
	s.ask(ctx, t, v1alpha1.EncryptionNone)
	s.says(ctx, t, metav1.ConditionTrue, func(int) []string { return []string{""} })
	s.sends(ctx, t, true)
	for _, pod := range []*corev1.Pod{s.client, s.view} {
		if err := client.CoreV1().Pods(l.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// find finds the client, which does not run yet.
func (s *secret) find(ctx context.Context, t *testing.T) {
	t.Helper()
	var err error
	if s.client, err = client.CoreV1().Pods(s.namespace).Get(ctx, "secret-client", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ask changes the service's setting.
func (s *secret) ask(ctx context.Context, t *testing.T, encryption string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"encryption":%q}}`, encryption)
	services := dynamicClient.Resource(v1alpha1.GroupVersion.WithResource("tsnservices")).Namespace(s.namespace)
	if _, err := services.Patch(ctx, "secret", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// required waits until both ends report the state of a link that requires encryption.
func (s *secret) required(ctx context.Context, t *testing.T) {
	t.Helper()
	if s.lacks == nil {
		s.says(ctx, t, metav1.ConditionTrue, func(int) []string { return []string{saysEncrypted} })
		return
	}
	s.says(ctx, t, metav1.ConditionFalse, func(end int) []string {
		return []string{saysRefused, under.Nodes[end].Name + " cannot encrypt: ", s.lacks.Error()}
	})
	for pod, name := range map[*corev1.Pod]string{s.client: "cam", s.view: "view0"} {
		if pod.Status.PodIP == "" {
			continue
		}
		if hasInterface(ctx, t, pod, name) {
			t.Errorf("%s still has the interface %s", pod.Name, name)
		}
	}
}

// preferred waits until both ends report the state of a link that prefers encryption.
func (s *secret) preferred(ctx context.Context, t *testing.T) {
	t.Helper()
	s.says(ctx, t, metav1.ConditionTrue, func(end int) []string {
		if s.lacks == nil {
			return []string{saysEncrypted}
		}
		return []string{saysClear, under.Nodes[end].Name + " cannot encrypt: ", s.lacks.Error()}
	})
	waitLink(ctx, t, s.client, s.view)
	s.sends(ctx, t, true)
}

// says waits until both ends' conditions have a status and contain the texts; "" means no condition. The client's node
// is the first end.
func (s *secret) says(ctx context.Context, t *testing.T, status metav1.ConditionStatus, texts func(end int) []string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		link, err := linkOf(ctx, s.client)
		if err != nil || link == nil {
			return errors.Join(err, errors.New("the client has no link"))
		}
		for end, kind := range []string{v1alpha1.ConditionClientPlugged, v1alpha1.ConditionEndpointPlugged} {
			condition := meta.FindStatusCondition(link.Status.Conditions, kind)
			if condition == nil || condition.Status != status || condition.ObservedGeneration != link.Generation {
				return fmt.Errorf("%s is %+v, want %s of generation %d", kind, condition, status, link.Generation)
			}
			for _, text := range texts(end) {
				if !strings.Contains(condition.Message, text) || text == "" && condition.Message != "" {
					return fmt.Errorf("%s says %q, want %q", kind, condition.Message, text)
				}
			}
		}
		return s.signed(link)
	})
}

// signed checks what the cluster has signed for both nodes: their keys, or that they cannot encrypt.
func (s *secret) signed(link *v1alpha1.TSNLink) error {
	for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
		switch keys := end.NodeKeys; {
		case !link.Spec.Encrypted() && keys == nil:
		case !link.Spec.Encrypted():
			return fmt.Errorf("without encryption the link has keys of node %s: %+v", end.Node, keys)
		case keys == nil || keys.Signature == "" || keys.CannotEncrypt != (s.lacks != nil) || (len(keys.Keys) == 0) != (s.lacks != nil):
			return fmt.Errorf("of node %s the link says %+v", end.Node, keys)
		}
	}
	return nil
}

// clientWaits checks the messages for the client's users.
func (s *secret) clientWaits(ctx context.Context, t *testing.T) {
	t.Helper()
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := kube.Wait(within, func(ctx context.Context) error {
		log, err := logs(ctx, s.client, "ktsn-wait")
		for _, text := range []string{saysRefused, under.Nodes[0].Name + " cannot encrypt: ", s.lacks.Error()} {
			if err == nil && !strings.Contains(log, text) {
				err = fmt.Errorf("ktsn-wait says %q, want %q", log, text)
			}
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	now, err := client.CoreV1().Pods(s.namespace).Get(ctx, s.client.Name, metav1.GetOptions{})
	if err != nil || len(now.Status.ContainerStatuses) > 0 && now.Status.ContainerStatuses[0].State.Running != nil {
		t.Errorf("the client runs without its link: %v", err)
	}
}

// marked marks the datagrams that are searched for on the wire.
const marked = "kubernetsn secret"

// datagrams sends some to an address, whether or not there is a route.
const datagrams = `use Socket; socket(my $s, PF_INET, SOCK_DGRAM, 0) or die $!; my $to = sockaddr_in(7788, inet_aton($ARGV[0]));
for (1 .. 50) { send($s, $ARGV[1], 0, $to); select(undef, undef, undef, 0.01) }`

// sends sends between both pods, by any route that their kernels know, and checks whether the wire carries that in
// clear.
func (s *secret) sends(ctx context.Context, t *testing.T, linkUp bool) {
	t.Helper()
	link, err := linkOf(ctx, s.client)
	if err != nil || link == nil {
		t.Fatalf("the client has no link: %v", err)
	}
	if linkUp {
		waitLink(ctx, t, s.client, s.view)
	}
	inClear := s.seen(ctx, t, map[*corev1.Pod]netip.Addr{s.client: addressOf(t, &link.Spec.Endpoint, true), s.view: addressOf(t, &link.Spec.Client, true)})
	want := linkUp && (s.lacks != nil || !link.Spec.Encrypted())
	if (inClear > 0) != want {
		t.Errorf("encryption is %q, and %d datagrams were on the wire in clear", link.Spec.Encryption, inClear)
	}
}

// seen counts datagrams in clear between the nodes.
func (s *secret) seen(ctx context.Context, t *testing.T, to map[*corev1.Pod]netip.Addr) (inClear int) {
	t.Helper()
	namespaces := map[*corev1.Pod]string{}
	for pod := range to {
		namespaces[pod] = networkNamespace(ctx, t, pod)
	}
	taps, err := tapSwitch()
	if err != nil {
		t.Fatal(err)
	}
	for pod, address := range to {
		if output, err := node.Output(ctx, under.Place(pod.Spec.NodeName), nil, inside(namespaces[pod], datagrams, address.String(), marked)...); err != nil {
			t.Errorf("%s cannot send: %v: %s", pod.Name, err, output)
		}
	}
	time.Sleep(100 * time.Millisecond) // for what is on its way
	for _, tap := range taps {
		capture, err := tap.Stop()
		if err != nil {
			t.Fatal(err)
		}
		if capture.Drops > 0 {
			t.Errorf("the tap dropped %d frames", capture.Drops)
		}
		for i := range capture.Packets {
			if bytes.Contains(capture.Packets[i].Head, []byte(marked)) {
				inClear++
			}
		}
	}
	return inClear
}
